"""What `tachograph attach` and `tachograph watch` have a program run, as text, in a thread of its own: wait until
nothing of ours can meet an import of the program, load tachograph, record, and end.

Two threads that import modules which need each other each get half of one, and the program fails. So nothing at all is
imported here before the wait is over: what is used comes with Python itself. Then the only modules that are imported
are our own, and Python's import system is only used, never changed: no path, no finder, no hook."""

WAIT_SECONDS, LOOK_SECONDS = 30.0, 0.01
CLOSE_SECONDS = 20.0  # longest that the end of the program waits for us


def enter(home, folder, settings, module="attached"):
    """Everything, in the thread that calls. record() of this module of tachograph._launch does the work. An error is a
    line of the log raw/log-PID, which the command reads; where there is no log, the command waits for none."""
    try:
        import _signal  # type: ignore[import-not-found]
        import posix

        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())  # they are for the program's own threads
        log = "%s/raw/log-%d" % (folder, posix.getpid())
        write(posix, log, "")
    except BaseException:
        return
    try:
        name_thread(posix)
        said = follow(posix, log, home, folder, settings, module)
        if said:
            write(posix, log, "note not recorded: %s\nend\n" % said.replace("\n", " "))
    except BaseException:
        pass


class Unforked:
    """No thread of the program forks meanwhile: os.fork takes the lock of imports, too. It is for a file that a child
    would keep, opened and closed in here. Nothing in here may import, or wait for a thread of the program."""

    def __enter__(self):
        import _imp  # comes with Python itself

        _imp.acquire_lock()

    def __exit__(self, *_):
        import _imp

        _imp.release_lock()


def write(posix, log, text):
    """At the end of the log, which is open no longer than that."""
    with Unforked():
        file = posix.open(log, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND | posix.O_CLOEXEC, 0o666)
        try:
            posix.write(file, text.encode("utf-8", "replace"))
        finally:
            posix.close(file)


def name_thread(posix):
    """The name in a list of the threads of the process."""
    import _thread

    with Unforked():
        try:
            comm = posix.open("/proc/self/task/%d/comm" % _thread.get_native_id(), posix.O_WRONLY | posix.O_CLOEXEC)
        except OSError:
            return
        try:
            posix.write(comm, b"tachograph")
        finally:
            posix.close(comm)


def follow(posix, log, home, folder, settings, module):
    """Wait, load, record. Returns why nothing was recorded, "" when the rest is in the log."""
    import sys

    reason = wait(posix, log, folder, sys.modules, module == "attached")
    if reason:
        return reason
    import _thread

    pid, is_ending, asked, over = posix.getpid(), [], _thread.allocate_lock(), _thread.allocate_lock()
    asked.acquire()
    over.acquire()

    def leave():
        """The program ends: not before we have. A forked child has no such thread to wait for."""
        if posix.getpid() == pid:
            is_ending.append(True)
            asked.release()
            over.acquire(timeout=CLOSE_SECONDS)

    def pause(seconds):
        """True: the program ends."""
        return bool(is_ending) or asked.acquire(timeout=seconds)

    atexit = sys.modules["atexit"]
    atexit.register(leave)
    try:
        if is_shut_down(sys.modules):  # looked at only now: from here on its end waits
            return "the program is ending"
        try:
            loaded = load(sys, home, module)
        except BaseException as error:
            text = "Python %d.%d of the program (%s) cannot load tachograph: %s"
            return text % (*sys.version_info[:2], sys.executable, error)
        loaded.record(settings, pause)
        return ""
    finally:
        atexit.unregister(leave)
        over.release()


# ---- waiting -----------------------------------------------------------------------------------------------


def wait(posix, log, folder, modules, needs_torch):
    """Until the program does nothing that ours must not meet. Returns why that did not come, "" when it did."""
    import time

    until, said = time.monotonic() + WAIT_SECONDS, ""
    while True:
        doing = what_it_does(modules, needs_torch)
        if exists(posix, folder + "/stop") or not exists(posix, folder + "/raw"):
            return "stopped while the program %s; it goes on as before" % (doing or "works")
        if not doing:
            return ""
        if doing != said:
            write(posix, log, "waits %s\n" % doing)
            said = doing
        if doing == "ends":
            return "the program is ending"
        if time.monotonic() > until:
            return (
                "the program %s: waited %d s, nothing was recorded, and it goes on as before; try again when it works"
                % (doing, WAIT_SECONDS)
            )
        time.sleep(LOOK_SECONDS)


def exists(posix, path):
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def what_it_does(modules, needs_torch=True):
    """What any thread of the program does that forbids to begin, as the end of a sentence; "" if nothing."""
    if is_shut_down(modules):
        return "ends"
    importing = list(modules["_frozen_importlib"]._module_locks)  # one for each module that a thread imports now
    if importing:
        return "is importing %s" % importing[0]
    if not is_complete(modules, "torch") and (needs_torch or "torch" in modules):
        return "has not imported torch"
    if not is_complete(modules, "atexit") or not is_complete(modules, "threading"):
        return "is importing"
    lock = getattr(modules.get("torch._dynamo.convert_frame"), "compile_lock", None)
    if lock is not None:
        if not lock.acquire(blocking=False):
            return "is compiling"
        lock.release()
    return ""


def is_complete(modules, name):
    module = modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def is_shut_down(modules):
    """The main thread has come to its end: functions of atexit may be running already."""
    return getattr(modules.get("threading"), "_SHUTTING_DOWN", False)


# ---- loading -----------------------------------------------------------------------------------------------


def load(sys, home, module):
    """tachograph._launch.<module>. The package is not on the program's path; its modules are found through it."""
    modules = sys.modules
    if "tachograph" not in modules:
        folder = home + "/tachograph"
        spec = modules["_frozen_importlib_external"].spec_from_file_location(
            "tachograph", folder + "/__init__.py", submodule_search_locations=[folder]
        )
        before = set(modules)
        try:
            modules["_frozen_importlib"]._load(spec)
        except BaseException:
            for name in set(modules) - before:
                if name.partition(".")[0] == "tachograph":
                    modules.pop(name, None)
            raise
    if module == "watched":
        from tachograph._launch import watched

        return watched
    from tachograph._launch import attached

    return attached
