"""This machine: devices, cores, and the lock for exclusive use of a device."""
