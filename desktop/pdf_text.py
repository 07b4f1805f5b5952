"""The text of a PDF, page by page. Knows pypdf alone."""

from __future__ import annotations

import io
import logging
import time

from mlx_spec.events import Problem

LONGEST_S = 30.0  # on one file
ENOUGH = 2_500_000  # characters after which no page is read any more


def pdf_text(data: bytes, name: str) -> str:
    """All text of a PDF, a blank line between pages. Raises `Problem`: locked, damaged, no text in it, too slow."""
    import pypdf  # a tenth of a second, which only those pay who attach a PDF

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what is odd about a file is told by what comes of it
    started = time.monotonic()
    pages: list[str] = []
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Problem(f"{name} is locked with a password.", "Save a copy without it, then attach that.")
        for page in reader.pages:
            pages.append(page.extract_text().strip())
            if sum(map(len, pages)) > ENOUGH:
                break
            if time.monotonic() - started > LONGEST_S:
                raise Problem(f"{name} takes too long to read.", "Attach it as text, or some of its pages.")
    except Problem:
        raise
    except pypdf.errors.DependencyError as e:
        raise Problem(f"{name} is encrypted.", "Save a copy without encryption, then attach that.") from e
    except Exception as e:  # a damaged file makes pypdf raise almost anything, from KeyError to RecursionError
        raise Problem(f"{name} is a damaged PDF: its text cannot be read.", "Save it anew, or attach text.") from e
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise Problem(f"{name} has no text in it; it may be scanned.", "Attach a PDF with text, or the text itself.")
    return text
