"""How the C library hands out memory to a command that computes on the CPU."""

import ctypes
import mmap
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_ONE_GIB = 1 << 30
_HUGE = 2 << 20
_IN_HUGE_PAGES = 512 << 20  # address space only, until it is used


def keep_freed_memory() -> None:
    """Let freed memory be used again instead of going back to the system, in huge pages.

    By default glibc gives large blocks back at once, and every pass of a network takes the same
    megabytes anew, page by page: up to a third of the time of a small network. Not done by
    ``import rotta``: it is for the whole process. Elsewhere than on Linux with glibc nothing
    happens.
    """
    if (c := _glibc()) is not None:
        c.mallopt(_M_MMAP_THRESHOLD, _ONE_GIB)
        c.mallopt(_M_TRIM_THRESHOLD, _ONE_GIB)
        _ask_for_huge_pages(c)


def give_freed_memory_back() -> None:
    """Before a fork: what is free goes back to the system after all.

    Forked processes would inherit it, and the system copies what they write to page by page, in
    small ones, which they then work in until their end.
    """
    if (c := _glibc()) is not None:
        c.malloc_trim(0)
        _ask_for_huge_pages(c)


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    c = ctypes.CDLL(None)
    return c if hasattr(c, "gnu_get_libc_version") else None


def _ask_for_huge_pages(c: ctypes.CDLL) -> None:
    """For the memory that is handed out next: take a piece of the heap, mark it, give it back."""
    c.malloc.restype = ctypes.c_void_p
    c.malloc.argtypes = [ctypes.c_size_t]
    c.free.argtypes = [ctypes.c_void_p]
    c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    piece = c.malloc(_IN_HUGE_PAGES)
    if piece is None:
        return
    first = -(-piece // _HUGE) * _HUGE
    c.madvise(first, piece + _IN_HUGE_PAGES - first - _HUGE, mmap.MADV_HUGEPAGE)
    c.free(piece)
