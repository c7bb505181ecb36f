"""Write every dashboard beside this program."""

from pathlib import Path

from dashboards.build import PACKS
from dashboards.build.writing import write

if __name__ == "__main__":
    write(PACKS, Path(__file__).parents[1])
