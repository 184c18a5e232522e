package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"posthaste.dev/posthaste/internal/testenv"
)

// serverFolder makes dir, or, when that is "", a new folder in the test bed's.
func serverFolder(dir, name string) (string, error) {
	if dir == "" {
		bed, err := testenv.Dir()
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Join(bed, "private"), 0o755); err != nil {
			return "", fmt.Errorf("make server folder: %w", err)
		}
		if dir, err = os.MkdirTemp(filepath.Join(bed, "private"), name+"-"); err != nil {
			return "", fmt.Errorf("make server folder: %w", err)
		}
		return dir, os.Chmod(dir, 0o755)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make server folder: %w", err)
	}
	return filepath.Abs(dir)
}

// RemoveFolder deletes a folder of servers that have been killed, with the data to which it links.
func RemoveFolder(dir string) error {
	// The processes of a killed PostgreSQL may still write for a moment, so deleting is tried again.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var last error
	deleted := until(ctx, func() bool {
		last = errors.Join(removeLinkedData(dir), os.RemoveAll(dir))
		return last == nil
	})
	if deleted != nil {
		return fmt.Errorf("remove server folder: %w", last)
	}
	return nil
}

// removeLinkedData deletes what links named data in dir and below point to.
func removeLinkedData(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.Name() != "data":
			return nil
		case entry.IsDir():
			return filepath.SkipDir
		case entry.Type() != os.ModeSymlink:
			return nil
		}
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.RemoveAll(target)
	})
}
