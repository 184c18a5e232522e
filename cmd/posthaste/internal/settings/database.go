package settings

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// errEncoding is what a URL gets whose pieces fell apart. Its own text must never appear: whatever looks like a host,
// a port or a database in it may be half of a password.
var errEncoding = errors.New("not a URL as it stands; want postgres://user:password@host:port/database, " +
	"with @ / # % : ? & + and blanks in the password percent-encoded (@ is %40, / is %2F, # is %23, % is %25), " +
	"or leave the password out and give it by PGPASSWORD")

// parseDatabase reads a DATABASE_URL, and the PG* variables for what it leaves out, as libpq does.
func parseDatabase(dsn string) (*pgx.ConnConfig, error) {
	isURL := strings.Contains(dsn, "://")
	if isURL && strings.ContainsAny(dsn[:1], `"'`) {
		return nil, errors.New("leave out the quotes around it: here they are part of the value")
	}
	if isURL {
		if err := checkURL(dsn); err != nil {
			return nil, err
		}
	}
	config, err := pgx.ParseConfig(dsn)
	if err == nil {
		if config.RuntimeParams["application_name"] == "" {
			config.RuntimeParams["application_name"] = "posthaste"
		}
		return config, nil
	}
	// The inner error of a URL that has passed the check speaks of single parameters or of PG* variables. That of
	// key=value pairs may quote what stands after a blank in a password.
	inner := errors.Unwrap(err)
	switch {
	case dsn != "" && !isURL:
		return nil, errors.New("not understood as key=value pairs; a value with blanks or quotes stands in single " +
			"quotes, with \\' and \\\\ inside, " +
			"or use a URL: postgres://user:password@host:port/database")
	case inner != nil:
		return nil, fmt.Errorf("a parameter (or a PG* variable) is wrong: %w", inner)
	}
	return nil, errors.New("a parameter or a PG* variable is wrong")
}

// checkURL finds the signs of a password that was not encoded. Read as a URL such a string is often valid, with
// another host, port or database: a / ends the host part early, a # starts a fragment, a ? starts parameters.
func checkURL(dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return errEncoding
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New("want it to begin with postgres://")
	}
	if u.Fragment != "" || strings.Contains(dsn, "#") || strings.Contains(u.Path, "@") ||
		strings.Count(u.Path, "/") > 1 {
		return errEncoding
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		_, port, given := strings.Cut(host[strings.LastIndex(host, "]")+1:], ":")
		if n, err := strconv.Atoi(port); given && port != "" && (err != nil || n < 1 || n > 65535) {
			return errors.New("the port is no number from 1 to 65535")
		}
	}
	for key := range u.Query() {
		if strings.ContainsAny(key, "@/:") {
			return errEncoding
		}
	}
	return nil
}

// databaseURL keeps the text; what it means, with the PG* variables, is known once all settings are read.
func databaseURL(d *Database) value {
	v := secret(&d.URL)
	v.form = "a URL, or key=value pairs"
	v.get = func() any {
		if d.Conn == nil {
			return nil
		}
		return newTarget(d.Conn)
	}
	return v
}
