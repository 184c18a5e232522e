// Package testenv tells tests where the servers of the test bed are.
//
// A setting is looked up in the environment first, so a server that the user names is the one that is used, and then in
// the file that `go run ./testbed up` wrote. Nothing is cached: a test that starts while servers come up sees them as
// soon as the file has them. All functions may be called concurrently.
package testenv

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The settings. A list of brokers or process ids is separated by commas; ids and brokers come in the same order.
const (
	DatabaseURL   = "POSTHASTE_TEST_DATABASE_URL"    // superuser on PostgreSQL 15
	DatabaseURL13 = "POSTHASTE_TEST_DATABASE_URL_13" // superuser on the oldest supported major
	DatabaseURL18 = "POSTHASTE_TEST_DATABASE_URL_18" // superuser on the newest supported major
	KafkaBrokers  = "POSTHASTE_TEST_KAFKA_BROKERS"   // host:port of the cluster of one broker
	Kafka3Brokers = "POSTHASTE_TEST_KAFKA3_BROKERS"  // host:port of each of three brokers

	KafkaPids      = "POSTHASTE_TEST_KAFKA_PIDS"      // process ids, only when the test bed started the brokers
	Kafka3Pids     = "POSTHASTE_TEST_KAFKA3_PIDS"     // the same for the three
	KafkaClasspath = "POSTHASTE_TEST_KAFKA_CLASSPATH" // folder with Apache Kafka's jars: clients, server, tools
)

var pidsOf = map[string]string{KafkaPids: KafkaBrokers, Kafka3Pids: Kafka3Brokers}

// Get returns the value of a setting, or "" where neither the environment nor the test bed has it.
func Get(key string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	if brokers, ok := pidsOf[key]; ok && os.Getenv(brokers) != "" {
		return "" // the file's ids are not those of the brokers that the user gave
	}
	dir, err := Dir()
	if err != nil {
		return ""
	}
	settings, err := ReadFile(filepath.Join(dir, "env"))
	if err != nil {
		return ""
	}
	return settings[key]
}

// Require returns the value of a setting. Without one it fails the test and says how to get it: a test that needs a
// server must not pass unseen because there is none. Under -short, which promises to need no server, it skips the test
// whether or not there is one.
func Require(t testing.TB, key string) string {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs the server of %s; skipped under -short", key)
	}
	v := Get(key)
	if v == "" {
		t.Fatalf("no test servers: run `go run ./testbed up` or set %s", key)
	}
	return v
}

// Dir returns the test bed's folder, .testbed beside the go.work file above the working directory. It need not exist.
func Dir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find test bed: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return filepath.Join(dir, ".testbed"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find test bed: no go.work above the working directory; run this in the repository")
		}
		dir = parent
	}
}

// ReadFile reads lines KEY=VALUE. Empty lines and lines that start with # are passed over.
func ReadFile(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read test bed settings: %w", err)
	}
	settings := map[string]string{}
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("read test bed settings: line %d of %s is not KEY=VALUE", n+1, path)
		}
		settings[key] = value
	}
	return settings, nil
}

// WriteFile writes settings for ReadFile, sorted, in one step: a concurrent reader sees the old or the new file.
func WriteFile(path string, settings map[string]string) error {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s=%s\n", key, settings[key])
	}
	if err := os.WriteFile(path+".new", []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write test bed settings: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write test bed settings: %w", err)
	}
	return nil
}
