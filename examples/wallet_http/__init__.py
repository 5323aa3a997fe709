"""The wallet over HTTP: an application of its own, with a log inside it. The README beside this file begins the tour."""
