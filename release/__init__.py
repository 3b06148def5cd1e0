"""What a release is made of: the sdist and the wheel, the layers. Run by `make dist` and `make layer`."""
