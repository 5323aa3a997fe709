"""Courses: the domain of `strandline demo`, typed, and its race in small.

The problem: more students than seats, more wishes than a student may have, and many clients that answer
wishes at the same time; afterwards the log must show that no seat was sold twice. With a stream per course
the limit per student would be checked against another stream, and with one stream for all every client would
wait for every other. Here the boundary of a subscription is its course and its student, and clients meet only
where these are the same.

The domain itself is `strandline.cli.demo.courses`: two events, two projections, two commands, each with one
rule per line. It is a small sister of course_subscriptions.py that numbers the seats, so that the log can be
judged.
"""

from __future__ import annotations

import tempfile

import strandline
from strandline import EventStore
from strandline.cli.demo.courses import Course, Student, define, subscribe
from strandline.cli.demo.race import Outcome, Term, open_term, run_clients, sales_of

__all__ = ["Course", "Student", "define", "play", "subscribe"]


def play(store: EventStore, students: int, clients: int) -> tuple[Term, Outcome]:
    """Open a term and let the clients answer all wishes."""
    term = open_term(store)
    return term, run_clients(store, term.wishes(students, seed=1), clients, lambda done: None)


def story(store: EventStore) -> None:
    """Sixty students, eight clients, and the log that they leave."""
    term, outcome = play(store, students=60, clients=8)
    print(f"60 students, 8 clients at once: {outcome.decided} wishes, {outcome.subscribed} subscriptions")
    for course in sales_of(store, term.courses()):
        print(f"  {course.id:<10}{len(course.sold):>4} of {course.seats:>3} sold, {course.sold_twice} twice")
    print(f"{outcome.conflicts} times somebody was faster, and the wish was decided again")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, strandline.connect(f"{folder}/courses.db") as school:
        story(school)
