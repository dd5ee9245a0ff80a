"""`python -m agent.cli`: the same command where no script is installed."""

from kernelwright.agent.cli import main

if __name__ == "__main__":
    main()
