package testenv_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"posthaste.dev/posthaste/internal/testenv"
)

// repository makes a folder that looks like the repository, with the given settings file, and enters a folder in it.
func repository(t *testing.T, settings map[string]string) {
	t.Helper()
	root := t.TempDir()
	inner := filepath.Join(root, "a", "b")
	for _, dir := range []string{inner, filepath.Join(root, ".testbed")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "go.work"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := testenv.WriteFile(filepath.Join(root, ".testbed", "env"), settings); err != nil {
		t.Fatal(err)
	}
	t.Chdir(inner)
}

func TestGet(t *testing.T) {
	const url = "postgres://u:p@127.0.0.1:1/db?sslmode=disable&application_name=a=b"
	for _, key := range []string{testenv.DatabaseURL, testenv.DatabaseURL18, testenv.KafkaBrokers, testenv.KafkaPids} {
		t.Setenv(key, "")
	}
	repository(t, map[string]string{
		testenv.DatabaseURL:  url,
		testenv.KafkaBrokers: "127.0.0.1:2",
		testenv.KafkaPids:    "42",
	})
	check := func(key, want string) {
		t.Helper()
		if got := testenv.Get(key); got != want {
			t.Errorf("Get(%s) = %q, want %q", key, got, want)
		}
	}
	check(testenv.DatabaseURL, url)
	check(testenv.DatabaseURL18, "")
	check(testenv.KafkaPids, "42")

	t.Setenv(testenv.DatabaseURL, "postgres://given")
	check(testenv.DatabaseURL, "postgres://given")
	t.Setenv(testenv.KafkaBrokers, "127.0.0.1:3")
	check(testenv.KafkaPids, "")
	t.Setenv(testenv.KafkaPids, "43")
	check(testenv.KafkaPids, "43")
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte("# a comment\n\nA=1\n B=x=y \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := testenv.ReadFile(path)
	if want := map[string]string{"A": "1", "B": "x=y"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("ReadFile = %v, %v, want %v", got, err, want)
	}
	if err := os.WriteFile(path, []byte("A=1\nnonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := testenv.ReadFile(path); err == nil {
		t.Errorf("ReadFile = %v, want an error that names line 2", got)
	}
}

// failure records how Require ends a test.
type failure struct {
	testing.TB
	fatal, skipped bool
}

func (f *failure) Helper()               {}
func (f *failure) Fatalf(string, ...any) { f.fatal = true }
func (f *failure) Skipf(string, ...any)  { f.skipped = true }

func TestRequireFailsWithoutServer(t *testing.T) {
	if testing.Short() {
		t.Skip("under -short Require skips")
	}
	t.Setenv(testenv.DatabaseURL, "")
	repository(t, nil)
	var f failure
	if got := testenv.Require(&f, testenv.DatabaseURL); got != "" || !f.fatal || f.skipped {
		t.Errorf("Require = %q, failed %v, skipped %v; it should fail the test", got, f.fatal, f.skipped)
	}
}
