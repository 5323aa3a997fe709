/* The system calls that SQLite makes for our files. `process.py` installs them and says what they are for.

   Locks. SQLite uses POSIX locks, which belong to a process and a file: when any other code of this process closes the
   file, the kernel drops them. Here they become open-file-description locks, on one descriptor per file and process which
   nothing else uses.

   Forks. A child forgets what SQLite knew about its parent's files: it closes its copies of their descriptors, and
   `stat` shows it another device, so SQLite takes each file for one that it has never seen. Without this a child believes
   that it holds its parent's locks. */

#define _FILE_OFFSET_BITS 64
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#ifdef F_OFD_SETLK
#define OFD_SETLK F_OFD_SETLK
#define OFD_SETLKW F_OFD_SETLKW
#define OFD_GETLK F_OFD_GETLK
#else
#define OFD_SETLK 0
#define OFD_SETLKW 0
#define OFD_GETLK 0
#endif

/* SQLite gives an extension a table of its functions, and only ever adds to its end (https://sqlite.org/loadext.html). */
static void **functions;
#define mutex_alloc ((void *(*)(int)) functions[130])
#define mutex_enter ((void (*)(void *)) functions[131])
#define mutex_leave ((void (*)(void *)) functions[133])
#define mutex_try ((int (*)(void *)) functions[134])

/* SQLite's static mutexes, but for three that it leaves to applications. The last one guards what is in this file. */
#define OURS 13
static const int mutexes[] = {2, 3, 4, 5, 6, 7, 11, 12, OURS};
#define MUTEXES ((int) (sizeof mutexes / sizeof mutexes[0]))

static int (*real_open)(const char *, int, int);
static int (*real_close)(int);
static int (*real_fcntl)(int, int, ...);
static int (*real_stat)(const char *, struct stat *);
static int (*real_fstat)(int, struct stat *);

#define MOST_FILES 65536
static struct {
    dev_t device;
    ino_t inode;
    int lock; /* the descriptor that has the locks, -1 if the file needs none */
    char is_open, lock_writes;
} files[MOST_FILES]; /* by descriptor */
static int file_end; /* one more than the highest descriptor in use */

static char **paths; /* of our databases */
static int path_count;

static int has_ofd, is_installed;
static int is_held, is_unusable;
static unsigned long generation; /* how often this process was forked from one that had this */

enum { NOT_OURS, WITHOUT_LOCKS, WITH_LOCKS };

/* What a path is: one of our databases or its shared memory, its write-ahead log, or something else. */
static int kind_of(const char *path) {
    size_t length = strlen(path);
    int kind = WITH_LOCKS;
    if (length > 4 && strcmp(path + length - 4, "-shm") == 0)
        length -= 4;
    else if (length > 4 && strcmp(path + length - 4, "-wal") == 0) {
        length -= 4;
        kind = WITHOUT_LOCKS;
    }
    for (int index = 0; index < path_count; index++)
        if (strncmp(paths[index], path, length) == 0 && paths[index][length] == 0) return kind;
    return NOT_OURS;
}

/* Another open descriptor of the same file whose lock descriptor serves this one too, -1 if there is none. */
static int find_sharing(int fd, int needs_writing) {
    for (int other = 0; other < file_end; other++)
        if (other != fd && files[other].is_open && files[other].lock >= 0 && files[other].inode == files[fd].inode
            && files[other].device == files[fd].device && files[other].lock_writes >= needs_writing)
            return other;
    return -1;
}

static int open_lock(const char *path, int fd, int needs_writing) {
    struct stat found;
    int lock = real_open(path, O_RDWR | O_CLOEXEC, 0);
    files[fd].lock_writes = 1;
    if (lock < 0 && !needs_writing) {
        lock = real_open(path, O_RDONLY | O_CLOEXEC, 0);
        files[fd].lock_writes = 0;
    }
    if (lock < 0) return -1;
    if (real_fstat(lock, &found) == 0 && found.st_ino == files[fd].inode && found.st_dev == files[fd].device) return lock;
    real_close(lock); /* the file was replaced between two calls */
    errno = EMFILE;
    return -1;
}

static int our_open(const char *path, int flags, int mode) {
    struct stat found;
    void *mutex = mutex_alloc(OURS);
    mutex_enter(mutex);
    int kind = kind_of(path), fd = real_open(path, flags, mode);
    if (kind != NOT_OURS && fd >= 0) {
        if (fd >= MOST_FILES || real_fstat(fd, &found) != 0) {
            real_close(fd);
            fd = -1;
            errno = EMFILE;
        } else {
            int needs_writing = (flags & O_ACCMODE) != O_RDONLY, sharing;
            files[fd].device = found.st_dev;
            files[fd].inode = found.st_ino;
            files[fd].lock = -1;
            if (kind == WITH_LOCKS && has_ofd) {
                sharing = find_sharing(fd, needs_writing);
                if (sharing >= 0) {
                    files[fd].lock = files[sharing].lock;
                    files[fd].lock_writes = files[sharing].lock_writes;
                } else if ((files[fd].lock = open_lock(path, fd, needs_writing)) < 0) {
                    int error = errno;
                    real_close(fd);
                    fd = -1;
                    errno = error;
                }
            }
            if (fd >= 0) {
                files[fd].is_open = 1;
                if (fd >= file_end) file_end = fd + 1;
            }
        }
    }
    mutex_leave(mutex);
    return fd;
}

static int is_shared(int fd) {
    for (int other = 0; other < file_end; other++)
        if (other != fd && files[other].is_open && files[other].lock == files[fd].lock) return 1;
    return 0;
}

static int our_close(int fd) {
    void *mutex = mutex_alloc(OURS);
    mutex_enter(mutex);
    if (fd >= 0 && fd < MOST_FILES && files[fd].is_open) {
        if (files[fd].lock >= 0 && !is_shared(fd)) real_close(files[fd].lock);
        files[fd].is_open = 0;
    }
    int result = real_close(fd);
    mutex_leave(mutex);
    return result;
}

static int our_fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (fd >= 0 && fd < MOST_FILES && files[fd].is_open && files[fd].lock >= 0) {
        int instead = command == F_SETLK ? OFD_SETLK : command == F_SETLKW ? OFD_SETLKW : command == F_GETLK ? OFD_GETLK : 0;
        if (instead) {
            ((struct flock *) argument)->l_pid = 0; /* the kernel asks for it */
            return real_fcntl(files[fd].lock, instead, argument);
        }
    }
    return real_fcntl(fd, command, argument);
}

static dev_t device_here(dev_t device) { return device ^ (dev_t) (generation * 2654435761u); }

static int our_stat(const char *path, struct stat *found) {
    int result = real_stat(path, found);
    found->st_dev = device_here(found->st_dev);
    return result;
}

static int our_fstat(int fd, struct stat *found) {
    int result = real_fstat(fd, found);
    found->st_dev = device_here(found->st_dev);
    return result;
}

/* A fork waits until no thread is inside SQLite's mutexes: the child could never take one that another thread held. */

static void let_go(int count) {
    while (count-- > 0) mutex_leave(mutex_alloc(mutexes[count]));
}

static void before_fork(void) {
    if (!is_installed) return;
    for (int tries = 0; tries < 2000 && !is_held; tries++) {
        int count = 0;
        while (count < MUTEXES && mutex_try(mutex_alloc(mutexes[count])) == 0) count++;
        if (count == MUTEXES)
            is_held = 1;
        else {
            let_go(count);
            usleep(100);
        }
    }
}

static void after_fork_in_parent(void) {
    if (is_held) let_go(MUTEXES);
    is_held = 0;
}

static void after_fork_in_child(void) {
    if (!is_installed) return;
    if (!is_held) is_unusable = 1;
    after_fork_in_parent();
    generation++;
    int nothing = -1;
    for (int fd = 0; fd < file_end; fd++) {
        if (!files[fd].is_open) continue;
        if (files[fd].lock >= 0 && !is_shared(fd)) close(files[fd].lock);
        files[fd].is_open = 0;
        /* The number stays taken: an inherited connection must never write into a file that gets it later. */
        if (nothing < 0) nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (nothing < 0 || dup2(nothing, fd) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) is_unusable = 1;
    }
    if (nothing >= 0) close(nothing);
    file_end = 0;
}

/* What Python calls. */

#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
int strandline_learn_mutexes(void *database, char **error, void **table) {
    functions = table;
    return 0;
}

static void *address(PyObject *addresses, const char *name) {
    PyObject *value = PyDict_GetItemString(addresses, name);
    return value == NULL ? NULL : PyLong_AsVoidPtr(value);
}

static PyObject *replace(PyObject *module, PyObject *addresses) {
    if (!PyDict_Check(addresses)) {
        PyErr_SetString(PyExc_TypeError, "replace takes a dict of addresses");
        return NULL;
    }
    if (!is_installed) { /* else these may be ours */
        real_open = address(addresses, "open");
        real_close = address(addresses, "close");
        real_fcntl = address(addresses, "fcntl");
        real_stat = address(addresses, "stat");
        real_fstat = address(addresses, "fstat");
    }
    if (PyErr_Occurred()) return NULL;
    if (!functions || !real_open || !real_close || !real_fcntl || !real_stat || !real_fstat) {
        PyErr_SetString(PyExc_RuntimeError, "SQLite's functions are not known");
        return NULL;
    }
    if (!is_installed && pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
        return PyErr_NoMemory();
    is_installed = 1;
    return Py_BuildValue(
        "{sNsNsNsNsN}", "open", PyLong_FromVoidPtr(our_open), "close", PyLong_FromVoidPtr(our_close), "fcntl",
        PyLong_FromVoidPtr(our_fcntl), "stat", PyLong_FromVoidPtr(our_stat), "fstat", PyLong_FromVoidPtr(our_fstat)
    );
}

static PyObject *add_path(PyObject *module, PyObject *encoded) {
    char *path, **more = NULL;
    if (PyBytes_AsStringAndSize(encoded, &path, NULL) < 0) return NULL;
    void *mutex = mutex_alloc(OURS);
    Py_BEGIN_ALLOW_THREADS /* whoever has the mutex may wait for the interpreter */
    mutex_enter(mutex);
    char *copy = strdup(path);
    if (copy != NULL) more = realloc(paths, (path_count + 1) * sizeof *paths);
    if (more != NULL) {
        paths = more;
        paths[path_count++] = copy;
    }
    mutex_leave(mutex);
    Py_END_ALLOW_THREADS
    if (more == NULL) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *is_broken(PyObject *module, PyObject *nothing) { return PyBool_FromLong(is_unusable); }

static PyObject *use_ofd(PyObject *module, PyObject *wanted) {
    has_ofd = 0;
#ifdef F_OFD_SETLK
    struct flock any = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int probe = PyObject_IsTrue(wanted) == 1 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (probe >= 0) {
        has_ofd = fcntl(probe, F_OFD_GETLK, &any) == 0;
        close(probe);
    }
#endif
    return PyBool_FromLong(has_ofd);
}

#ifdef __linux__
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif
#define LOOK_AGAIN_NANOSECONDS 10000000 /* in case the timer fires before the wait begins */

static void end_wait(int number) {}

/* Only a signal ends the wait for a lock. Nearly no program uses this one, and it is ignored where nothing handles it. */
static void handle_signal(void) {
    struct sigaction present, ours = {.sa_handler = end_wait};
    if (sigaction(SIGURG, NULL, &present) == 0 && (present.sa_flags & SA_SIGINFO) == 0
        && (present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN))
        sigaction(SIGURG, &ours, NULL);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static PyObject *wait_for_lock(int fd, double seconds) {
    double end = seconds_now() + seconds;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    event.sigev_notify_thread_id = (pid_t) syscall(SYS_gettid);
    timer_t timer;
    handle_signal();
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return PyErr_SetFromErrno(PyExc_OSError);
    struct itimerspec when = {.it_interval = {0, LOOK_AGAIN_NANOSECONDS}};
    when.it_value.tv_sec = (time_t) seconds;
    when.it_value.tv_nsec = (long) ((seconds - (double) when.it_value.tv_sec) * 1e9) + 1;
    timer_settime(timer, 0, &when, NULL);
    PyObject *result = NULL;
    while (result == NULL) {
        int error;
        Py_BEGIN_ALLOW_THREADS
        error = flock(fd, LOCK_EX) == 0 ? 0 : errno;
        Py_END_ALLOW_THREADS
        if (error == 0)
            result = Py_True;
        else if (error != EINTR) {
            errno = error;
            PyErr_SetFromErrno(PyExc_OSError);
            break;
        } else if (PyErr_CheckSignals() < 0)
            break;
        else if (seconds_now() >= end)
            result = Py_False;
    }
    timer_delete(timer);
    Py_XINCREF(result);
    return result;
}

static PyObject *lock(PyObject *module, PyObject *arguments) {
    int fd;
    double seconds;
    if (!PyArg_ParseTuple(arguments, "id", &fd, &seconds)) return NULL;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) Py_RETURN_TRUE;
    if (errno != EWOULDBLOCK && errno != EINTR) return PyErr_SetFromErrno(PyExc_OSError);
    return wait_for_lock(fd, seconds);
}
#endif

static PyObject *identify(PyObject *module, PyObject *path) {
    struct stat found;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(path, &length);
    if (text == NULL) return NULL;
    if (stat(text, &found) != 0) return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    return Py_BuildValue("(KK)", (unsigned long long) found.st_dev, (unsigned long long) found.st_ino);
}

static PyMethodDef methods[] = {
    {"identify", identify, METH_O, "Return the device and the inode of the file with a name."},
#ifdef __linux__
    {"lock", lock, METH_VARARGS, "Lock a file by flock; returns whether that was possible within so many seconds."},
#endif
    {"replace", replace, METH_O, "Learn the addresses of the calls that SQLite makes; returns those of the calls it is to make."},
    {"add_path", add_path, METH_O, "Treat a file as ours from now on. Call before SQLite opens it."},
    {"is_broken", is_broken, METH_NOARGS, "Whether this is a child of a fork that SQLite cannot be used in."},
    {"use_ofd", use_ofd, METH_O, "Use locks of open file descriptions, if wanted and there are any; returns whether it does."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "system_calls", .m_doc = "The system calls that SQLite makes for our files.",
    .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit_system_calls(void) { return PyModule_Create(&definition); }
