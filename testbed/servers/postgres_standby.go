package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Standby makes a server that follows this one by streaming, asynchronously, and can be promoted. This one is stopped
// for a moment, since its files are copied.
func (s *Postgres) Standby(ctx context.Context) (*Postgres, error) {
	standby, err := s.standby(ctx)
	if err != nil {
		return nil, fmt.Errorf("make standby of PostgreSQL %d: %w", s.Major, err)
	}
	return standby, nil
}

func (s *Postgres) standby(ctx context.Context) (*Postgres, error) {
	standby, err := newPostgres(ctx, PostgresConfig{Major: s.Major})
	if err != nil {
		return nil, err
	}
	err = s.Stop(ctx)
	if err == nil {
		err = s.copyTo(ctx, standby)
		err = errors.Join(err, s.start(ctx))
	}
	if err == nil {
		err = standby.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, standby.Remove())
	}
	return standby, nil
}

// copyTo copies the files of a stopped server, and adds what makes the copy a standby.
func (s *Postgres) copyTo(ctx context.Context, standby *Postgres) error {
	cmd := standby.command(ctx, "cp", "-R", "-p", s.data+"/.", standby.data)
	cmd.Path = "/bin/cp"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy files: %w: %s", err, out)
	}
	settings := fmt.Sprintf("\nport = %d\nprimary_conninfo = 'host=127.0.0.1 port=%d user=postgres password=%s'\n",
		standby.port, s.port, password)
	for name, text := range map[string]string{"postgresql.auto.conf": settings, "standby.signal": ""} {
		file, err := os.OpenFile(filepath.Join(standby.data, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = file.WriteString(text)
		if as := s.as; as != nil {
			err = errors.Join(err, file.Chown(int(as.Uid), int(as.Gid)))
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}
