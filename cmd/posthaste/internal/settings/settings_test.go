package settings

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/relay"
)

// load reads settings from lines NAME=VALUE of the environment. A broker list is there unless a line gives one.
func load(t testing.TB, environ ...string) (*Config, error) {
	t.Helper()
	return Load(Sources{Environ: EnvironMap(append([]string{"KAFKA_BROKERS=b1:9092"}, environ...))})
}

// wrong loads and returns the problems by the variable's name.
func wrong(t testing.TB, environ ...string) map[string]Problem {
	t.Helper()
	_, err := load(t, environ...)
	var list *Error
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("%v: want an *Error, got %v", environ, err)
	}
	found := map[string]Problem{}
	if list != nil {
		for _, p := range list.Problems {
			found[p.Name] = p
		}
	}
	return found
}

// given holds a valid value for each setting, other than its default.
var given = map[string]string{
	"DATABASE_URL": "postgres://u:p@db:1234/d", "POSTHASTE_TABLE": "a.b", "POSTHASTE_SCHEMA": "side",
	"POSTHASTE_LOG_LEVEL": "debug", "POSTHASTE_LOG_FORMAT": "json",
	"OUTBOX_RELAY_INTERVAL_SECONDS": "0.25", "OUTBOX_RELAY_BATCH_SIZE": "10", "POSTHASTE_RELAY_BATCH_MAX": "100",
	"POSTHASTE_RELAY_CLAIM": "skip-locked", "POSTHASTE_RELAY_SETTLE": "delete", "POSTHASTE_RELAY_SETTLE_SYNC": "on",
	"POSTHASTE_RELAY_ORDER": "strict", "POSTHASTE_RELAY_LANES": "8", "POSTHASTE_RELAY_LEASE": "8s",
	"POSTHASTE_RELAY_DRAIN_TIMEOUT": "9s",
	"POSTHASTE_RELAY_CLAIM_TIMEOUT": "7s", "POSTHASTE_RELAY_SWEEP_INTERVAL": "1m", "POSTHASTE_RELAY_MEMORY": "2097152",
	"KAFKA_BROKERS": "b2:9092", "POSTHASTE_KAFKA_TLS": "on", "POSTHASTE_KAFKA_CA_FILE": "ca.pem",
	"POSTHASTE_KAFKA_SASL":     "plain",
	"POSTHASTE_KAFKA_USERNAME": "u", "POSTHASTE_KAFKA_PASSWORD": "p", "POSTHASTE_KAFKA_CLIENT_ID": "c",
	"POSTHASTE_HTTP_ADDR": "",
}

// Every setting changes exactly one field, and every field belongs to a setting or is named here.
func TestNoFieldIsLost(t *testing.T) {
	elsewhere := []string{"Database.Conn", "Database.Names", "Relay.Config.BeatInterval", "Relay.Config.Logger"}
	owner := map[string]string{}
	base := flatten(defaults(t))
	for i, s := range All() {
		value, ok := given[s.Env]
		if !ok {
			t.Errorf("no value to try %s with", s.Env)
			continue
		}
		changed := defaults(t)
		if err := table(changed)[i].set(value); err != nil {
			t.Errorf("%s=%s: %v", s.Env, value, err)
		}
		var fields []string
		for name, v := range flatten(changed) {
			if !reflect.DeepEqual(v, base[name]) {
				fields = append(fields, name)
			}
		}
		if len(fields) != 1 || owner[fields[0]] != "" {
			t.Errorf("%s changes %v", s.Env, fields)
			continue
		}
		owner[fields[0]] = s.Env
	}
	for name := range base {
		if owner[name] == "" && !slices.Contains(elsewhere, name) {
			t.Errorf("no setting fills %s", name)
		}
	}
}

func defaults(t testing.TB) *Config {
	t.Helper()
	c := &Config{}
	for _, s := range table(c) {
		if s.Default != "" {
			if err := s.set(s.Default); err != nil {
				t.Fatalf("default of %s: %v", s.Env, err)
			}
		}
	}
	return c
}

func flatten(c *Config) map[string]any {
	fields := map[string]any{}
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			name, f := prefix+v.Type().Field(i).Name, v.Field(i)
			if f.Kind() == reflect.Struct && name != "Database.Names" {
				walk(name+".", f)
			} else {
				fields[name] = f.Interface()
			}
		}
	}
	walk("", reflect.ValueOf(c).Elem())
	return fields
}

func TestNamesAreUniqueAndToldOf(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		for _, name := range []string{s.Env, "--" + s.Flag, s.Key} {
			if seen[name] && name != "--" {
				t.Errorf("%s twice", name)
			}
			seen[name] = true
		}
		if s.Help == "" || s.Key == "" || (s.Flag == "") != s.Secret {
			t.Errorf("%s: incomplete: %+v", s.Env, s)
		}
	}
}

func TestDefaultsAreTheRelays(t *testing.T) {
	c, err := load(t)
	if err != nil {
		t.Fatal(err)
	}
	if want := (relay.Config{}).WithDefaults(); !reflect.DeepEqual(c.Relay.Config, want) {
		t.Errorf("got  %+v\nwant %+v", c.Relay.Config, want)
	}
	if c.Database.Names.Table.String() != `"public"."outbox_event"` || c.Database.Names.Schema != "posthaste" ||
		c.HTTP.Addr != "127.0.0.1:9188" {
		t.Errorf("%+v", c)
	}
}

func TestPrecedence(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddFlags(flags, GroupRelay)
	if err := flags.Parse([]string{"--lease", "9s"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{
		Flags: flags,
		Environ: map[string]string{"POSTHASTE_RELAY_LEASE": "8s", "POSTHASTE_RELAY_BATCH_MAX": "900",
			"POSTHASTE_RELAY_SWEEP_INTERVAL": ""},
		DotEnv: map[string]string{"POSTHASTE_RELAY_LEASE": "7s", "POSTHASTE_RELAY_BATCH_MAX": "800",
			"OUTBOX_RELAY_BATCH_SIZE":        "70",
			"POSTHASTE_RELAY_SWEEP_INTERVAL": "1m", "AWS_SECRET": "of others"},
	}, GroupRelay)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Relay.Config; r.Lease != 9*time.Second || r.BatchMax != 900 || r.Batch != 70 ||
		r.Interval != time.Second/2 || r.SweepInterval != time.Minute {
		t.Errorf("%+v", r)
	}
}

func TestEveryWrongValueInOneError(t *testing.T) {
	found := wrong(t, "OUTBOX_RELAY_INTERVAL_SECONDS=0", "OUTBOX_RELAY_BATCH_SIZE=1e3", "POSTHASTE_RELAY_BATCH_MAX=-1",
		"POSTHASTE_RELAY_CLAIM=Lanes",
		"POSTHASTE_RELAY_SETTLE_SYNC=true", "POSTHASTE_RELAY_LANES=48", "POSTHASTE_RELAY_LEASE=5",
		"POSTHASTE_RELAY_MEMORY=16MiB",
		"POSTHASTE_HTTP_ADDR=9188", "POSTHASTE_LOG_LEVEL=verbose", "POSTHASTE_TABLE=a-b", "KAFKA_BROKERS=b1",
		"POSTHASTE_RELAY_DRAIN_TIMEOUT=1h",
		"DATABASE_URL=mysql://x", "POSTHASTE_KAFKA_SASL=plain", "POSTHASTE_KAFKA_CA_FILE=x")
	for name, want := range map[string]string{
		"OUTBOX_RELAY_INTERVAL_SECONDS": "above 0", "OUTBOX_RELAY_BATCH_SIZE": "whole number",
		"POSTHASTE_RELAY_BATCH_MAX": "above 0",
		"POSTHASTE_RELAY_CLAIM":     "want lanes or skip-locked", "POSTHASTE_RELAY_SETTLE_SYNC": "want on or off",
		"POSTHASTE_RELAY_LANES": "power of two",
		"POSTHASTE_RELAY_LEASE": "with its unit", "POSTHASTE_RELAY_MEMORY": "whole number",
		"POSTHASTE_HTTP_ADDR": "has no port",
		"POSTHASTE_LOG_LEVEL": "want debug, info, warn or error", "POSTHASTE_TABLE": "needs double quotes",
		"KAFKA_BROKERS":                        `piece "b1" has no port`,
		"POSTHASTE_RELAY_DRAIN_TIMEOUT=1h0m0s": "10m", "DATABASE_URL": "postgres://", "POSTHASTE_KAFKA_USERNAME": "needs it",
		"POSTHASTE_KAFKA_PASSWORD": "needs one", "POSTHASTE_KAFKA_TLS": "want on",
	} {
		if p, ok := found[name]; !ok || !strings.Contains(p.Want, want) {
			t.Errorf("%s: %q; want %q in it", name, p.Want, want)
		}
		delete(found, name)
	}
	if len(found) > 0 {
		t.Errorf("too much: %v", found)
	}
	if found := wrong(t, "OUTBOX_RELAY_BATCH_SIZE=500", "POSTHASTE_RELAY_BATCH_MAX=50"); len(found) != 1 {
		t.Errorf("a batch above its maximum: %v", found)
	}
}

func TestUnknownNames(t *testing.T) {
	for _, name := range []string{"POSTHASTE_PORT", "POSTHASTE_PORT_9188_TCP", "POSTHASTE_PORT_9188_TCP_ADDR",
		"POSTHASTE_SERVICE_HOST",
		"POSTHASTE_SERVICE_PORT", "POSTHASTE_SERVICE_PORT_HTTP_METRICS", "POSTHASTE_RELAY_SERVICE_HOST",
		"POSTHASTE_RELAY_PORT_80_UDP_PROTO",
		"POSTHASTE_TEST_DATABASE_URL", "KAFKA_TOPIC", "OTHER"} {
		if found := wrong(t, name+"=x"); len(found) > 0 {
			t.Errorf("%s refused: %v", name, found)
		}
	}
	for name, near := range map[string]string{"POSTHASTE_LEASE": "POSTHASTE_RELAY_LEASE",
		"POSTHASTE_RELAY_BATCHMAX": "POSTHASTE_RELAY_BATCH_MAX",
		"POSTHASTE_TRANSPORT":      "", "POSTHASTE_SERVICE": "", "POSTHASTE_TABLE_FILE": "POSTHASTE_TABLE"} {
		p, ok := wrong(t, name+"=sesame")[name]
		if !ok || !strings.Contains(p.Want, near) || strings.Contains(p.Error(), "sesame") {
			t.Errorf("%s: %v", name, p)
		}
	}
	_, err := Load(Sources{DotEnv: map[string]string{"POSTHASTE_TABEL": "x"}}, GroupDatabase)
	if err == nil || !strings.Contains(err.Error(), "POSTHASTE_TABEL (.env): no such setting") {
		t.Errorf("in .env: %v", err)
	}
}

// The lists of bug reports: apache/kafka PR#18741, Trendyol/kafka-konsumer PR#151, deviceinsight/kafkactl#140.
func TestBrokerLists(t *testing.T) {
	for value, want := range map[string]string{"b1:9092, b2:9092": "b1:9092 b2:9092", " b1:9092": "b1:9092",
		"[::1]:9092": "[::1]:9092"} {
		c, err := load(t, "KAFKA_BROKERS="+value)
		if err != nil || strings.Join(c.Kafka.Brokers, " ") != want {
			t.Errorf("%q: %v, %v", value, c, err)
		}
	}
	for value, piece := range map[string]string{
		"b1:9092 b2:9092": `"b1:9092 b2:9092" has blanks`, "b1:9092,": `"" is empty`,
		`"b1:9092,b2:9092"`: `"\"b1:9092" has quotes`,
		"b1:9092 # main":    "has blanks", "PLAINTEXT://b1:9092": "has a protocol", "b1": `"b1" has no port`,
		"b1:9092;b2:9092": "more colons",
		"::1:9092":        "in brackets", "b1:kafka": `port "kafka"`, "b1:0": `port "0"`, "b1:65536": "from 1 to 65535",
		":9092": "has no host", "a/b:1": "no host has",
	} {
		if p := wrong(t, "KAFKA_BROKERS="+value)["KAFKA_BROKERS"]; !strings.Contains(p.Want, piece) {
			t.Errorf("%q: %s; want %s", value, p.Want, piece)
		}
	}
	if p := wrong(t, "KAFKA_BROKERS=")["KAFKA_BROKERS"]; !strings.HasPrefix(p.Want, "not set") {
		t.Errorf("empty: %v", p)
	}
	for line, want := range map[string]string{`KAFKA_BROKERS="b1:9092,b2:9092"`: "b1:9092 b2:9092",
		"KAFKA_BROKERS=b1:9092 # main": "b1:9092"} {
		c, err := Load(Sources{DotEnv: dotEnv(t, line)}, GroupKafka)
		if err != nil || strings.Join(c.Kafka.Brokers, " ") != want {
			t.Errorf(".env %s: %v", line, err)
		}
	}
}

func dotEnv(t testing.TB, text string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := ReadDotEnv(path)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestDotEnvNeverQuoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".env")
	if values, err := ReadDotEnv(path); err != nil || values != nil {
		t.Errorf("missing file: %v, %v", values, err)
	}
	if err := os.WriteFile(path, []byte("GOOD=1\nopen sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDotEnv(path); err == nil || strings.Contains(err.Error(), "sesame") ||
		!strings.Contains(err.Error(), "KEY=VALUE") {
		t.Errorf("broken file: %v", err)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sasl := []string{"POSTHASTE_KAFKA_SASL=plain", "POSTHASTE_KAFKA_USERNAME=u"}
	for _, text := range []string{"p@s/s#w%20r:d?&+", "p@s/s#w%20r:d?&+\n", "p@s/s#w%20r:d?&+\r\n"} {
		c, err := load(t, append(sasl, "POSTHASTE_KAFKA_PASSWORD_FILE="+file(text))...)
		if err != nil || c.Kafka.Password != "p@s/s#w%20r:d?&+" {
			t.Errorf("%q: %v", text, err)
		}
	}
	if c, err := load(t, "DATABASE_URL_FILE="+file("host=h dbname=d password=sesame\n")); err != nil ||
		c.Database.Conn.Password != "sesame" {
		t.Errorf("DATABASE_URL_FILE: %v", err)
	}
	missing := wrong(t, append(sasl, "POSTHASTE_KAFKA_PASSWORD_FILE=/none/such")...)
	if p := missing["POSTHASTE_KAFKA_PASSWORD_FILE"]; !strings.Contains(p.Want, "no such file") {
		t.Errorf("missing file: %v", p)
	}
	both := append(sasl, "POSTHASTE_KAFKA_PASSWORD_FILE="+file("a"), "POSTHASTE_KAFKA_PASSWORD=sesame")
	if p := wrong(t, both...)["POSTHASTE_KAFKA_PASSWORD"]; p.Want == "" || strings.Contains(p.Error(), "sesame") {
		t.Errorf("both: %v", p)
	}
}

// Passwords in URLs: platform-engineering-labs/formae PR#454, PostgREST/postgrest#1531, timescale/promscale#727.
func TestDatabaseURL(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:p%40s%2Fs%23w%2520r%3Ad%3F%26%2B@h:1/d", `host=h port=1 user=u dbname=d password='p@s/s#w%20r:d?&+'`,
		"host=h port=1 user=u dbname=d password=p@s/s#w%20r:d?&+",
	} {
		c, err := load(t, "DATABASE_URL="+dsn)
		if err != nil || c.Database.Conn.Password != "p@s/s#w%20r:d?&+" || c.Database.Conn.Host != "h" ||
			c.Database.Conn.Database != "d" {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	for _, password := range []string{"p@s/s#w%20r:d?&+", "se/same", "se#same", "se?same", "12/same", "12?same",
		"12#same", "se%same", "se same", "/", "#", "?x", "se[same"} {
		for _, tail := range []string{"@h:1/d", "@h/d?sslmode=disable", "@127.0.0.1:5432/d?application_name=a"} {
			p, ok := wrong(t, "DATABASE_URL=postgres://u:"+password+tail)["DATABASE_URL"]
			if !ok || !strings.Contains(p.Want, "percent-encoded") {
				t.Errorf("password %q%s: %q", password, tail, p.Want)
			}
			if strings.Contains(p.Error(), "same") || strings.Contains(p.Error(), "w%20r") {
				t.Errorf("password in the text: %s", p.Error())
			}
		}
	}
	for dsn, want := range map[string]string{
		"postgres://u:sesame@h/d?sslmode=maybe":       "sslmode is invalid",
		"postgres://u:sesame@h/d?sslrootcert=/none/x": "no such file",
		"host=h password=se same":                     "single quotes",
		"host=h port=x password=sesame":               "key=value",
		"mysql://u:sesame@h/d":                        "postgres://",
		"sesame":                                      "key=value",
	} {
		p := wrong(t, "DATABASE_URL="+dsn)["DATABASE_URL"]
		if !strings.Contains(p.Want, want) || strings.Contains(p.Error(), "same") {
			t.Errorf("%s: %s", dsn, p.Error())
		}
	}
}
