"""Hashes of what browsers load: browsers check them (Subresource Integrity), and so can anybody else.

A page states the hash of its style sheet, of its scripts and of every module that those import, so that a cache or a
proxy on the way that alters one of them breaks the page instead of changing what it does.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Mapping

_IMPORT = re.compile(r"""^\s*(?:import|export)\b[^"';]*?["'](\.[^"']+)["'];""", re.MULTILINE)
_LOADED = re.compile(r"""<(?:script|link rel="stylesheet")[^>]*?\s(?:src|href)="([^"]+)"[^>]*?>""")


def digest(content: bytes) -> str:
    """SHA-384 in the form of the `integrity` attribute.

    >>> digest(b"alert('Hello, world.');")
    'sha384-H8BRh8j48O9oYatfu5AZzq6A9RINhZO5H16dQZngK7T62em8MUt1FLm52t+eX6xO'
    """
    return "sha384-" + base64.b64encode(hashlib.sha384(content).digest()).decode()


def edition(files: Mapping[str, bytes]) -> str:
    """The path that these files are loaded from and that no others ever are, so that browsers may keep them."""
    hashes = "".join(f"{path} {digest(content)}\n" for path, content in sorted(files.items()))
    return f"v/{hashlib.sha256(hashes.encode()).hexdigest()[:16]}/"


def with_integrity(html: str, path: str, files: Mapping[str, bytes]) -> str:
    """A page that states the hashes of what it loads; `path` is its own, `files` are all there are, by path.

    It loads them from the path of their edition. The modules that a script imports are named as well, which also lets
    the browser fetch them at once.
    """
    up = "../" * path.count("/") + edition(files)

    def stated(tag: re.Match[str]) -> str:
        loaded = _below(path, tag[1])
        content = files[loaded]
        said = tag[0].replace(f'"{tag[1]}"', f'"{up}{loaded}" integrity="{digest(content)}"')
        if 'type="module"' not in tag[0]:
            return said
        preloads = [
            f'<link rel="modulepreload" href="{up}{module}" integrity="{digest(files[module])}">'
            for module in sorted(_modules(loaded, files) - {loaded})
        ]
        return "\n  ".join([*preloads, said])

    return _LOADED.sub(stated, html)


def _modules(entry: str, files: Mapping[str, bytes]) -> set[str]:
    """The module, and everything that it imports, directly or not."""
    found, waiting = {entry}, [entry]
    while waiting:
        module = waiting.pop()
        for name in _IMPORT.findall(files[module].decode()):
            loaded = _below(module, name)
            if loaded not in found:
                found.add(loaded)
                waiting.append(loaded)
    return found


def _below(path: str, reference: str) -> str:
    """What a relative reference in the file at `path` names.

    >>> _below("s/SURVEY", "../static/survey.js"), _below("", "static/home.js")
    ('static/survey.js', 'static/home.js')
    """
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), reference))
