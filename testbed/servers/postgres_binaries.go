package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// embeddedVersions are the exact versions behind a major; Debian's own server of a major is preferred where there is
// one.
var embeddedVersions = map[int]embedded.PostgresVersion{
	13: "13.22.0", // embedded.V13 names a build that the repository does not have everywhere
	14: embedded.V14,
	15: embedded.V15,
	16: embedded.V16,
	17: embedded.V17,
	18: embedded.V18,
}

// DownloadError says that a server's binaries could not be had from the network.
type DownloadError struct {
	What string
	Err  error
}

func (e *DownloadError) Error() string { return fmt.Sprintf("download %s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *DownloadError) Unwrap() error { return e.Err }

// postgresBin returns the folder with initdb and postgres of a major, downloaded the first time if need be.
func postgresBin(ctx context.Context, major int, download func(version string)) (string, error) {
	debian := fmt.Sprintf("/usr/lib/postgresql/%d/bin", major)
	if _, err := os.Stat(filepath.Join(debian, "postgres")); err == nil {
		return debian, nil
	}
	version, ok := embeddedVersions[major]
	if !ok {
		return "", fmt.Errorf("find PostgreSQL %d: only majors 13 to 18 are known here", major)
	}
	dir, err := Cached(ctx, "postgres-"+string(version), func(dir string) error {
		if download != nil {
			download(string(version))
		}
		if err := unpackPostgres(ctx, version, dir); err != nil {
			return &DownloadError{"PostgreSQL " + string(version), err}
		}
		return nil
	})
	return filepath.Join(dir, "bin"), err
}

// unpackPostgres brings the binaries into dir. When ctx ends, the download is left to itself, for the library knows no
// context; it deletes what it still made, if this process lives that long.
func unpackPostgres(ctx context.Context, version embedded.PostgresVersion, dir string) error {
	done := make(chan error, 1)
	go func() {
		err := downloadPostgres(version, dir)
		if ctx.Err() != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// downloadPostgres has embedded-postgres fetch the binaries. There is no function for that alone, so it is asked for a
// server that can't be: initdb refuses the encoding, and by then the binaries are there.
func downloadPostgres(version embedded.PostgresVersion, dir string) error {
	scratch, err := os.MkdirTemp("", "posthaste-postgres-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	unpacked := filepath.Join(dir, "unpacked") // beside it the library keeps what is half unpacked
	refused := embedded.NewDatabase(embedded.DefaultConfig().
		Version(version).
		Port(uint32(ports[0])).
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "runtime")).
		BinariesPath(unpacked).
		DataPath(filepath.Join(scratch, "data")).
		Encoding("none-of-these").
		Logger(io.Discard)).Start()
	out, err := exec.Command(filepath.Join(unpacked, "bin", "postgres"), "--version").CombinedOutput()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return refused // it did not get that far
	case err != nil:
		return fmt.Errorf("run postgres --version: %w: %s", err, out)
	}
	parts, err := os.ReadDir(unpacked)
	for _, part := range parts {
		err = errors.Join(err, os.Rename(filepath.Join(unpacked, part.Name()), filepath.Join(dir, part.Name())))
	}
	return errors.Join(err, os.RemoveAll(unpacked))
}

// postgresUser returns as whom PostgreSQL runs: as the caller, and in root's case, since PostgreSQL refuses root, as
// user postgres or else nobody.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("find user %s for PostgreSQL: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("find user for PostgreSQL: it refuses to run as root, and there is neither " +
		"a user postgres nor a user nobody; add one or run as another user")
}

// dataFolder makes the folder for the database's files: dir/data, or, where the user as whom PostgreSQL runs can't walk
// down to dir, one in the system's temporary folder to which dir/data then is a link.
func dataFolder(dir string, as *syscall.Credential) (string, error) {
	data := filepath.Join(dir, "data")
	if as != nil && !openToAll(dir) {
		outside, err := os.MkdirTemp("", "posthaste-postgres-")
		if err != nil {
			return "", err
		}
		if err := os.Symlink(outside, data); err != nil {
			return "", errors.Join(err, os.Remove(outside))
		}
		data = outside
	} else if err := os.MkdirAll(data, 0o700); err != nil {
		return "", err
	}
	if as == nil {
		return data, nil
	}
	return data, os.Chown(data, int(as.Uid), int(as.Gid))
}

// openToAll tells whether every user can walk down to dir.
func openToAll(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
