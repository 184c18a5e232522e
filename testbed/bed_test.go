package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"posthaste.dev/posthaste/internal/testenv"
)

// repository enters a new folder that looks like the repository, without any server.
func repository(t *testing.T) *bed {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.work"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	b, err := openBed()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseWant(t *testing.T) {
	w, rest, err := parseWant([]string{"--postgres", "18,15", "--kafka=none", "--durable", "--", "go", "--version"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.postgres, []int{18, 15}) || w.kafka != nil || !w.durable {
		t.Errorf("parseWant = %+v", w)
	}
	if !slices.Equal(rest, []string{"go", "--version"}) {
		t.Errorf("the rest is %q", rest)
	}
	if w, _, err := parseWant(nil); err != nil || len(w.units()) != 5 {
		t.Errorf("without flags: %d servers, %v", len(w.units()), err)
	}
	for _, wrong := range []string{"--postgres=14", "--postgres=", "--kafka=2", "--kafka=1,", "--fast"} {
		if _, _, err := parseWant([]string{wrong}); err == nil {
			t.Errorf("%s is not refused", wrong)
		}
	}
	if !slices.Equal(everything.postgres, []int{15, 13, 18}) {
		t.Errorf("the default has changed: %v", everything.postgres)
	}
}

func TestGivenServersAreNotStarted(t *testing.T) {
	b := repository(t)
	for _, u := range everything.units() {
		t.Setenv(u.key, "given to "+u.name)
	}
	if err := b.up(t.Context(), everything); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.status(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), "given by POSTHASTE_TEST_"); got != 5 {
		t.Errorf("%d of 5 servers are given:\n%s", got, &out)
	}
}

func TestExport(t *testing.T) {
	b := repository(t)
	t.Setenv(testenv.DatabaseURL, "")
	t.Setenv(testenv.KafkaBrokers, "127.0.0.1:1")
	settings := map[string]string{testenv.DatabaseURL: "postgres://it's", testenv.KafkaBrokers: "127.0.0.1:2"}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.put(settings); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	b.export(&out)
	if want := "export POSTHASTE_TEST_DATABASE_URL='postgres://it'\\''s'\n"; out.String() != want {
		t.Errorf("export wrote %q, want %q", &out, want)
	}
	if again, err := openBed(); err != nil || again.get(testenv.DatabaseURL) != "postgres://it's" {
		t.Errorf("a second reader has %q, %v", again.get(testenv.DatabaseURL), err)
	}
}

func TestExecKeepsTheStatusAndCleansUp(t *testing.T) {
	b := repository(t)
	err := b.exec(t.Context(), want{}, []string{"sh", "-c", "test -d .testbed && exit 7"})
	var exit commandFailed
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exec = %v, want exit status 7", err)
	}
	if _, err := os.Stat(b.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there after exec: %v", err)
	}
	if err := b.exec(t.Context(), want{}, []string{"true"}); err != nil {
		t.Errorf("exec true = %v", err)
	}
	if err := b.exec(t.Context(), want{}, nil); err == nil {
		t.Error("exec without a command is not refused")
	}
}

func TestDownOfSomeKeepsTheOthers(t *testing.T) {
	b := repository(t)
	given := map[string]string{
		testenv.DatabaseURL: "postgres://x", testenv.KafkaBrokers: "127.0.0.1:1", testenv.KafkaPids: "1",
	}
	folder := func(name string) string { return filepath.Join(b.dir, name) }
	for _, name := range []string{"postgres-15", "kafka-1", "private"} {
		if err := os.MkdirAll(folder(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.put(given); err != nil {
		t.Fatal(err)
	}
	if err := b.down(t.Context(), "oracle-23"); err == nil {
		t.Error("a server that nobody knows is not refused")
	}
	if err := b.down(t.Context(), "kafka-1", "kafka-3"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder("kafka-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stopped server's folder is there: %v", err)
	}
	if _, err := os.Stat(folder("postgres-15")); err != nil {
		t.Errorf("the other server's folder: %v", err)
	}
	again, err := openBed()
	if err != nil || len(again.settings) != 1 || again.get(testenv.DatabaseURL) == "" {
		t.Errorf("the settings are %v, %v", again.settings, err)
	}
	if err := b.down(t.Context(), "postgres-15"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(b.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder outlives the last server: %v", err)
	}
}
