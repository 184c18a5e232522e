package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func dotEnv(t testing.TB, text string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := readDotEnv(path)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestDotEnvNeverQuoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".env")
	if values, err := readDotEnv(path); err != nil || values != nil {
		t.Errorf("missing file: %v, %v", values, err)
	}
	if err := os.WriteFile(path, []byte("GOOD=1\nopen sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readDotEnv(path); err == nil || strings.Contains(err.Error(), "sesame") ||
		!strings.Contains(err.Error(), "KEY=VALUE") {
		t.Errorf("broken file: %v", err)
	}
}
