"""A child process of ``run_apart`` that answers with what it was ordered."""

from __future__ import annotations

from moldau.runtime.apart import answer

if __name__ == "__main__":
    answer(lambda order, rate: order)
