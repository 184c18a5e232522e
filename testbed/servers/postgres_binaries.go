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

// postgresBin returns the folder with initdb and postgres of a major, downloaded the first time if need be.
func postgresBin(ctx context.Context, major int) (string, error) {
	debian := fmt.Sprintf("/usr/lib/postgresql/%d/bin", major)
	if _, err := os.Stat(filepath.Join(debian, "postgres")); err == nil {
		return debian, nil
	}
	version, ok := embeddedVersions[major]
	if !ok {
		return "", fmt.Errorf("find PostgreSQL %d: only majors 13 to 18 are known here", major)
	}
	dir, err := Cached(ctx, "postgres-"+string(version), func(dir string) error {
		if err := unpackPostgres(version, dir); err != nil {
			return fmt.Errorf("download PostgreSQL %s: %w", version, err)
		}
		return nil
	})
	return filepath.Join(dir, "bin"), err
}

// unpackPostgres brings the binaries into dir. embedded-postgres has no function for that alone, so a server is started
// and stopped; as root it gets no further than initdb, which refuses root, and by then the binaries are there.
func unpackPostgres(version embedded.PostgresVersion, dir string) error {
	scratch, err := os.MkdirTemp("", "posthaste-postgres-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	server := embedded.NewDatabase(embedded.DefaultConfig().
		Version(version).
		Port(uint32(ports[0])).
		CachePath(filepath.Join(scratch, "archive")).
		RuntimePath(filepath.Join(scratch, "runtime")).
		BinariesPath(dir).
		DataPath(filepath.Join(scratch, "data")).
		Logger(io.Discard))
	started := server.Start()
	if started == nil {
		return server.Stop()
	}
	if out, err := exec.Command(filepath.Join(dir, "bin", "postgres"), "--version").CombinedOutput(); err != nil {
		return errors.Join(started, fmt.Errorf("run postgres --version: %w: %s", err, out))
	}
	return nil
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
