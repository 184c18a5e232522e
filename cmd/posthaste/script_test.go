package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"posthaste.dev/posthaste/internal/testenv"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"posthaste": main})
}

// oddPassword has every sign that falls apart in a URL.
const oddPassword = "p@s/s#w%20r:d?&+"

// Each script has an empty database of its own, in DATABASE_URL, a role of the same name ($DATABASE) whose password is
// oddPassword, and these commands:
//
//	exits STATUS PROGRAM ARGS...  runs a program that must end with that exit status
//	sql STATEMENT | @FILE         runs it in the database and prints what it returns
//	until PATTERN PROGRAM ARGS... runs a program until its output matches
//	topic NAME                    makes a topic on the test broker, whose address is in $TEST_BROKERS
func TestScripts(t *testing.T) {
	t.Parallel()
	server := testenv.Require(t, testenv.DatabaseURL)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup:               func(env *testscript.Env) error { return setUpDatabase(t, env, server) },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
			"sql":   sql,
			"until": until,
			"topic": topic,
		},
	})
}

func setUpDatabase(t *testing.T, env *testscript.Env, server string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	name := "script_" + strings.ToLower(rand.Text())
	for _, statement := range []string{
		"create database " + name,
		"create role " + name + " login password '" + oddPassword + "'",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return errors.Join(err, conn.Close(ctx))
		}
	}
	env.Defer(func() {
		for _, statement := range []string{"drop database " + name + " with (force)", "drop role " + name} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				t.Error(err)
			}
		}
		_ = conn.Close(ctx)
	})
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	u.Path = "/" + name
	env.Setenv("DATABASE_URL", u.String())
	env.Setenv("DATABASE", name)
	env.Setenv("TEST_BROKERS", testenv.Get(testenv.KafkaBrokers))
	env.Setenv("PGHOST", u.Hostname())
	env.Setenv("PGPORT", u.Port())
	env.Setenv("PGSSLMODE", "disable")
	return nil
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	status := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		status = exit.ExitCode()
	}
	if status != want {
		ts.Fatalf("%s: exit status %d, want %d", strings.Join(args[1:], " "), status, want)
	}
}

func sql(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql STATEMENT, or sql @FILE")
	}
	text := args[0]
	if file, ok := strings.CutPrefix(text, "@"); ok {
		text = ts.ReadFile(file)
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	defer func() { ts.Check(conn.Close(ctx)) }()
	results, err := conn.PgConn().Exec(ctx, text).ReadAll()
	ts.Check(err)
	for _, r := range results {
		for _, row := range r.Rows {
			for i, value := range row {
				if i > 0 {
					fmt.Fprint(ts.Stdout(), " ")
				}
				fmt.Fprint(ts.Stdout(), string(value))
			}
			fmt.Fprintln(ts.Stdout())
		}
	}
}
