package e2e_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// mountDisk mounts a file system in memory. Where that is not allowed the test can't be had.
func mountDisk(t *testing.T, dir string, size int) {
	t.Helper()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a full disk needs the right to mount one: run the test as root")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
