"""What the server does beside its answers, in a thread of its own."""

import threading


class BackgroundWork:
    """A thread that runs until it is told to stop: `_run` waits for `_stop` between two looks."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after what is being done."""
        self._stop.set()

    def close(self, seconds: float) -> None:
        """Stop, and wait for what is being done; one that never began is not waited for."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        """Do the work until `_stop` is set."""
        raise NotImplementedError
