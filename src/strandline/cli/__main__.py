"""`python -m strandline.cli`."""

from . import main

if __name__ == "__main__":
    main()
