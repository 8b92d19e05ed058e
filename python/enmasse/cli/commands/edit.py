"""`enmasse edit`: change one resource in an editor."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enmasse.cli.options.invocation import Spaced
from enmasse.cli.options.shared import Wait, Words

if TYPE_CHECKING:
    from enmasse.base.kinds import Kind
    from enmasse.cli.connect.client import Api

Document = dict[str, Any]

HEAD = """\
# Change what you like, save and close the editor. An empty file, or one that is as it was, changes
# nothing.
"""


def edit(
    words: Words = None,
    wait: Wait = True,
    *,
    call: Spaced,
) -> None:
    """Change a resource in the editor that VISUAL or EDITOR names (else vi).

    If the change is refused, the editor opens again. Concurrent changes of other fields are kept;
    if the same field changed, nothing is written and your text is kept in a file.

    Example: EDITOR=nano enmasse edit address orders
    """
    from enmasse.cli.resources import kinds
    from enmasse.cli.resources.targets import Scope, only

    with call.api() as api:
        before = only(api, words or (), Scope(call.namespace, call.space))
        model = kinds.named(before["kind"])
        after = _edited(api, model, before)
        if after is None:
            print(f"{before['kind']} {before['metadata']['name']} unchanged")
            return
        if wait and "isReady" in after.get("status", {}):
            after = api.wait_ready(model.plural, after)
    print(f"{after['kind']} {after['metadata']['name']} changed")


def _edited(api: "Api", model: "Kind", before: Document) -> Document | None:
    """Let the user edit a resource until it is accepted or abandoned; return its current state."""
    import yaml

    from enmasse.base.errors import EnMasseError, Exhausted, Invalid
    from enmasse.cli.resources.editing import difference, editable

    shown = editable(before)
    plain = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
    text = plain
    refusal: EnMasseError | None = None
    while True:
        comment = f"#\n# {refusal.message}\n" if refusal else ""
        given = _in_editor(HEAD + comment + text)
        if given is None or given == plain:
            return None
        if refusal is not None and given == text:
            raise refusal
        text = given
        try:
            after = _document(text)
            patch = difference(shown, after)
            return _patched(api, model, before, patch, text) if patch else None
        except (Invalid, Exhausted) as error:
            refusal = error


def _document(text: str) -> Document:
    from enmasse.base.errors import Code, Invalid
    from enmasse.resources import one_document

    document = one_document(text)
    if not isinstance(document, dict):
        raise Invalid(Code.DOCUMENT_UNREADABLE, "the file does not contain exactly one resource")
    return document


def _patched(api: "Api", model: "Kind", before: Document, patch: Document, text: str) -> Document:
    """Send a change, on top of concurrent changes of other fields.

    Raises: Conflict if the same field changed; a file then has the edited text.
    """
    from enmasse.base.errors import Code, Conflict
    from enmasse.cli.connect.client import ATTEMPTS
    from enmasse.cli.resources.editing import conflicting_fields, difference, editable

    where, name = before["metadata"].get("namespace", ""), before["metadata"]["name"]
    now = before
    for attempt in range(1, ATTEMPTS + 1):
        version = {"metadata": {"resourceVersion": now["metadata"]["resourceVersion"]}}
        try:
            return api.patch(model, where, name, _merged(patch, version))
        except Conflict as error:
            if error.code not in (Code.VERSION_CONFLICT, Code.STATE_CONFLICT):
                raise
            if attempt == ATTEMPTS:
                raise
        # Repeated on the new version, unless others changed the same field: that needs a person.
        now = api.get(model, where, name)
        fields = conflicting_fields(patch, difference(editable(before), editable(now)))
        if fields:
            file = _saved(name, text)
            raise Conflict(
                Code.VERSION_CONFLICT,
                f"{', '.join(fields)} changed concurrently; your text is in {file}",
            )
    raise AssertionError("the last attempt returns or raises")


def _merged(patch: Mapping[str, Any], version: Mapping[str, Any]) -> Document:
    return {**patch, "metadata": {**patch.get("metadata", {}), **version["metadata"]}}


def _in_editor(text: str) -> str | None:
    """Return a text as edited by the user, without the comments at its top; None if it is empty.

    Raises: Invalid if the editor cannot be started or fails.
    """
    import os
    import shlex
    import subprocess

    from enmasse.base.errors import Code, Invalid

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    file = Path(_saved("edit", text))
    try:
        done = subprocess.run([*shlex.split(editor), str(file)], check=False)
        given = file.read_text()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise Invalid(Code.SETTING_INVALID, f"editor {editor!r}: {error}") from None
    finally:
        file.unlink(missing_ok=True)
    if done.returncode:
        raise Invalid(
            Code.SETTING_INVALID,
            f"editor {editor!r} exited with {done.returncode}; nothing changed",
        )
    # Only the header is a comment; `#` further down may be data.
    lines = given.splitlines(keepends=True)
    while lines and lines[0].startswith("#"):
        lines.pop(0)
    return "".join(lines) if "".join(lines).strip() else None


def _saved(name: str, text: str) -> str:
    """Write a text into a private file, and return its path."""
    import tempfile

    with tempfile.NamedTemporaryFile(
        "w", prefix=f"enmasse-{name}-", suffix=".yaml", delete=False
    ) as file:
        file.write(text)
    return file.name
