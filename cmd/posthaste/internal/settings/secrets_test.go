package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsFromFiles(t *testing.T) {
	holding := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sasl := []string{"POSTHASTE_KAFKA_SASL=plain", "POSTHASTE_KAFKA_USERNAME=u"}
	for _, text := range []string{"p@s/s#w%20r:d?&+", "p@s/s#w%20r:d?&+\n", "p@s/s#w%20r:d?&+\r\n"} {
		c, err := load(t, append(sasl, "POSTHASTE_KAFKA_PASSWORD_FILE="+holding(text))...)
		if err != nil || c.Kafka.Password != "p@s/s#w%20r:d?&+" {
			t.Errorf("%q: %v", text, err)
		}
	}
	if c, err := load(t, "DATABASE_URL_FILE="+holding("host=h dbname=d password=sesame\n")); err != nil ||
		c.Database.Conn.Password != "sesame" {
		t.Errorf("DATABASE_URL_FILE: %v", err)
	}
	missing := wrong(t, append(sasl, "POSTHASTE_KAFKA_PASSWORD_FILE=/none/such")...)
	if p := missing["POSTHASTE_KAFKA_PASSWORD_FILE"]; !strings.Contains(p.Want, "no such file") {
		t.Errorf("missing file: %v", p)
	}
	empty := wrong(t, append(sasl, "POSTHASTE_KAFKA_PASSWORD_FILE="+holding("\n"))...)
	if p := empty["POSTHASTE_KAFKA_PASSWORD_FILE"]; p.Want != "is an empty file" {
		t.Errorf("empty file: %v", p)
	}
	both := append(sasl, "POSTHASTE_KAFKA_PASSWORD_FILE="+holding("a"), "POSTHASTE_KAFKA_PASSWORD=sesame")
	if p := wrong(t, both...)["POSTHASTE_KAFKA_PASSWORD"]; p.Want == "" || strings.Contains(p.Error(), "sesame") {
		t.Errorf("both: %v", p)
	}
}

// A secret and the file that holds it are one setting: the first source that has either decides, and none has both.
func TestSecretOrItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("from the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sasl := map[string]string{"POSTHASTE_KAFKA_SASL": "plain", "POSTHASTE_KAFKA_USERNAME": "u",
		"KAFKA_BROKERS": "b1:9092"}
	with := func(name, value string) map[string]string {
		m := maps.Clone(sasl)
		m[name] = value
		return m
	}
	plain, named := "kafka: {password: in YAML}", "kafka: {password_file: "+path+"}"
	for _, c := range []struct {
		from        Sources
		want, where string
	}{
		{Sources{Environ: with("POSTHASTE_KAFKA_PASSWORD_FILE", path),
			DotEnv: with("POSTHASTE_KAFKA_PASSWORD", "in .env"),
			File:   file(t, plain)}, "from the file", "environment, file " + path},
		{Sources{Environ: with("POSTHASTE_KAFKA_PASSWORD", "given"),
			DotEnv: with("POSTHASTE_KAFKA_PASSWORD_FILE", path),
			File:   file(t, named)}, "given", "environment"},
		{Sources{DotEnv: with("POSTHASTE_KAFKA_PASSWORD_FILE", path), File: file(t, plain)},
			"from the file", ".env, file " + path},
		{Sources{Environ: sasl, File: file(t, plain)}, "in YAML", ":1"},
		{Sources{Environ: sasl, File: file(t, named)}, "from the file", ":1, file " + path},
		{Sources{Environ: sasl, File: file(t, "kafka:\n  password: |\n    a block\n")}, "a block", ":2"},
		{Sources{Environ: sasl, File: file(t, "kafka: {password: 'a #b'} # comment")}, "a #b", ":1"},
	} {
		config, err := Load(c.from)
		if err != nil || config.Kafka.Password != c.want {
			t.Errorf("want %s: %v, %v", c.want, config, err)
		}
		e := explain(t, c.from, "POSTHASTE_KAFKA_PASSWORD")
		if !strings.HasSuffix(e.Origin.String(), c.where) || e.Text() != "set" {
			t.Errorf("%s: %s from %s", c.want, e.Text(), e.Origin)
		}
	}
	_, err := loadFile(t, "kafka: {brokers: b1:9092, sasl: plain, username: u,\n password: sesame,\n password_file: x}")
	want := "read settings: POSTHASTE_KAFKA_PASSWORD (f:2): is given, and so is kafka.password_file; leave one out"
	if err == nil || err.Error() != want {
		t.Errorf("both in one file: %v", err)
	}
	_, err = loadFile(t, "kafka: {brokers: b1:9092, sasl: plain, username: u,\n password_file: /none/such}")
	want = `read settings: POSTHASTE_KAFKA_PASSWORD_FILE="/none/such" (f:2): can't be read: no such file or directory`
	if err == nil || err.Error() != want {
		t.Errorf("missing file: %v", err)
	}
}

// Whatever is right or wrong, what is told of the settings holds no secret.
func TestSecretsAreNotTold(t *testing.T) {
	for _, environ := range []map[string]string{
		{"DATABASE_URL": "postgres://u:sesame@h/d", "POSTHASTE_KAFKA_PASSWORD": "sesame",
			"POSTHASTE_KAFKA_SASL": "plain"},
		{"DATABASE_URL": "postgres://u:12/sesame@h/d", "POSTHASTE_KAFKA_PASSWORD": "sesame"},
		{"DATABASE_URL": "host=h port=x password=sesame"},
	} {
		all, err := Explain(Sources{Environ: environ})
		text, jsonErr := json.Marshal(all)
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		for _, e := range all {
			text = append(text, e.Text()...)
		}
		if strings.Contains(string(text)+fmt.Sprint(err), "sesame") {
			t.Errorf("%v: %s, %v", environ, text, err)
		}
	}
}
