"""What a Mach-O file and a Metal library say of themselves: for which machine, from which macOS on, what they load.

Reads headers alone, on any system. Enough for checking a bundle; no code is looked at.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

THIN, FAT = b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"
MACHINES = {0x0100000C: "arm64", 0x01000007: "x86_64"}
LOADS = {0x0C, 0x80000018, 0x8000001F}  # LC_LOAD_DYLIB, its weak kind, and the one that is handed on
MINIMUM, BUILD = 0x24, 0x32  # LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION
METAL = b"MTLB"


@dataclass(frozen=True, slots=True)
class Binary:
    """One machine's part of a file. `minimum` is (major, minor) of the oldest macOS, or None if it does not say."""

    machine: str
    minimum: tuple[int, int] | None
    loads: tuple[str, ...]


def binaries(data: bytes) -> list[Binary]:
    """The parts of a Mach-O file; none if it is no such file. Raises `ValueError` if it is cut off."""
    try:
        if data[:4] == FAT:
            (count,) = struct.unpack_from(">I", data, 4)
            if count > 20:  # a class file of Java begins in the same way
                return []
            places = [struct.unpack_from(">5I", data, 8 + 20 * k)[2:4] for k in range(count)]
            return [part for at, size in places for part in binaries(data[at : at + size])]
        return [_binary(data)] if data[:4] == THIN else []
    except struct.error as e:
        raise ValueError("the file is cut off") from e


def _binary(data: bytes) -> Binary:
    machine, _, _, commands = struct.unpack_from("<4I", data, 4)
    minimum: tuple[int, int] | None = None
    loads = []
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command in (MINIMUM, BUILD):
            (version,) = struct.unpack_from("<I", data, at + (8 if command == MINIMUM else 12))
            minimum = (version >> 16, version >> 8 & 0xFF)
        elif command in LOADS:
            (offset,) = struct.unpack_from("<I", data, at + 8)
            loads.append(data[at + offset : at + size].split(b"\0")[0].decode("utf-8", "replace"))
        at += max(8, size)
    return Binary(MACHINES.get(machine, hex(machine)), minimum, tuple(loads))


def metal_minimum(data: bytes) -> tuple[int, int] | None:
    """From which macOS on a Metal library can be used, as (major, minor); None if it is none for macOS."""
    if data[:4] != METAL or len(data) < 16 or data[11] != 0x81:
        return None
    major, minor = struct.unpack_from("<2H", data, 12)
    return major, minor
