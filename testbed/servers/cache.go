package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// cacheDir is where downloads stay from run to run. Root's home is closed to the user as whom PostgreSQL then runs, so
// root uses the system's cache.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/posthaste-testbed", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder: %w", err)
	}
	return filepath.Join(dir, "posthaste-testbed"), nil
}

// Cached returns the folder name in the cache. When there is none, build fills an empty one, which becomes visible
// only when it is complete, under its final name. Of several processes one builds and the others wait.
func Cached(ctx context.Context, name string, build func(dir string) error) (string, error) {
	base, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, name)
	unlock, err := Lock(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// What a process that was killed left half done is nobody's now: we hold the lock.
	stale, _ := filepath.Glob(filepath.Join(base, name+".new-*")) // its only error is a malformed pattern
	for _, dir := range stale {
		_ = os.RemoveAll(dir) // if it stays, it is in nobody's way
	}
	fresh, err := os.MkdirTemp(base, name+".new-")
	if err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, 0o755); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	if err := build(fresh); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return "", fmt.Errorf("make cache folder: %w", err)
	}
	return dir, nil
}

// Lock takes a file lock that other processes respect, waiting until it is free or ctx is done. The lock ends with the
// returned function or with this process. Its file may be deleted by the one who holds it.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	failed := until(ctx, func() bool {
		unlock, err = tryLock(path)
		return unlock != nil || err != nil
	})
	if failed != nil {
		return nil, fmt.Errorf("lock %s: another process holds it: %w", path, failed)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return unlock, nil
}

// tryLock returns neither a function nor an error when another process has the lock.
func tryLock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && isAt(file, path) {
		return func() { file.Close() }, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return nil, err
}

// isAt tells whether path still leads to the file. Its holder may have deleted it between our open and our lock; then
// somebody else may hold the lock on a new file at path.
func isAt(file *os.File, path string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(ours, there)
}
