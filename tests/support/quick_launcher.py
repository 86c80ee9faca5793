"""The launcher, which here imports almost nothing before it forks: all that the parts share takes seconds."""

import sys

from workers.stack import launcher

if __name__ == "__main__":
    launcher.PRELOADED = ("workers.groups",)
    launcher.PRELOADED_PACKAGES = ()
    sys.exit(launcher.main(sys.argv[1:]))
