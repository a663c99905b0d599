from typing import Any

class Failure(Exception):
    what: str
    def __init__(self, what: str, message: str) -> None: ...

def serve(runner: Any) -> None: ...
