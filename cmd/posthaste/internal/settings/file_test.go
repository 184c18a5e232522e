package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// write makes a file of the text and returns its name.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "posthaste.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func file(t testing.TB, text string) *File {
	t.Helper()
	f, err := readFile(write(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

// loadFile loads from a file alone.
func loadFile(t testing.TB, text string) (*Config, error) {
	t.Helper()
	path := write(t, text)
	c, err := Load(Gather(nil, []string{ConfigEnv + "=" + path}))
	if list, ok := errors.AsType[*Error](err); ok {
		for i, p := range list.Problems { // the name of the folder is of no interest
			list.Problems[i].Name = strings.ReplaceAll(p.Name, path, "f")
			list.Problems[i].Source = strings.ReplaceAll(p.Source, path, "f")
		}
	}
	return c, err
}

func TestFile(t *testing.T) {
	c, err := loadFile(t, `# comment
database: # the empty section is none
relay: {lease: "8s", lanes: 8, settle_sync: on, interval_seconds: 1}
kafka:
  brokers: [b1:9092, "[::1]:9092"]
  tls: true
  client_id: '007'
http:
  addr: ""
topics:
  - {match: a.b}
  - match: a.*
    interval_seconds: 0.1
    batch_size: 5
`)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Relay.Config
	if r.Lease != 8*time.Second || c.Relay.Lanes != 8 || !c.Relay.SettleSync || r.Interval != time.Second ||
		!c.Kafka.TLS ||
		strings.Join(c.Kafka.Brokers, " ") != "b1:9092 [::1]:9092" || c.Kafka.ClientID != "007" || c.HTTP.Addr != "" {
		t.Errorf("%+v", c)
	}
	if len(r.Topics) != 2 || r.Topics[0].Match != "a.b" || r.Topics[1].Interval != time.Second/10 ||
		r.Topics[1].Batch != 5 {
		t.Errorf("%+v", r.Topics)
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "{}"} {
		if _, err := loadFile(t, text); err == nil || strings.Contains(err.Error(), "f:") ||
			!strings.Contains(err.Error(), "KAFKA_BROKERS: not set") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Everything wrong in a file comes at once, each with its line, together with what is wrong elsewhere.
func TestEveryMistakeOfAFile(t *testing.T) {
	_, err := loadFile(t, `relay:
  leese: 5s
  lease: &x 5
  batch_size: [1]
  batch_size: 3
  claim: fast
  memory:
  order: *x
  settle: !keep mark
lease: 4s
kafak:
  brokers: b9:1
relay.order: key
kafka:
  brokers: [b1:9092, "b2:9092, b3:9092"]
  password: sesame #street
  username: 007
  client_id: 2026-01-01
  tls: {on: 1}
http: 9188
log:
  level: true
database:
  url: 5
  url_file: []
  schema: "a-b"
relay:
  lanes: 4
topics:
  - match: x.*
    interval: 0.1
  - order
  - batch_size: 0
    batch_size: 1
  - match: [a]
`)
	list, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list.Problems {
		got = append(got, p.Error())
	}
	want := []string{
		`DATABASE_URL (f:24): want a URL, or key=value pairs; YAML takes this for a number: text stands in quotes`,
		`DATABASE_URL (f:25): want the name of a file, not a list`,
		`KAFKA_BROKERS (f:15): want host:port, separated by commas: piece "b2:9092, b3:9092" has blanks in it`,
		`OUTBOX_RELAY_BATCH_SIZE (f:4): want a whole number above 0, not a list`,
		`POSTHASTE_KAFKA_CLIENT_ID (f:18): want text; YAML takes this for a date: text stands in quotes`,
		`POSTHASTE_KAFKA_PASSWORD (f:16): a # after a blank begins a comment, or is it part of the secret? ` +
			`put the secret in quotes`,
		`POSTHASTE_KAFKA_TLS (f:19): want on or off, not a section`,
		`POSTHASTE_KAFKA_USERNAME (f:17): want text; YAML takes this for a number: text stands in quotes`,
		`POSTHASTE_LOG_LEVEL (f:22): want debug, info, warn or error; YAML takes this for true or false: ` +
			`text stands in quotes`,
		`POSTHASTE_RELAY_CLAIM="fast" (f:6): want lanes or skip-locked`,
		`POSTHASTE_RELAY_LEASE="5" (f:3): want a duration with its unit, such as 500ms, 5s or 2m`,
		`POSTHASTE_RELAY_MEMORY (f:7): has no value; write one, or remove the line`,
		`POSTHASTE_RELAY_ORDER (f:8): want a value; aliases (*name) are not followed, ` +
			`and text that begins with * stands in quotes`,
		`POSTHASTE_RELAY_SETTLE (f:9): want mark or delete without a tag (!name); ` +
			`text that begins with ! stands in quotes`,
		`POSTHASTE_SCHEMA (f:26): schema name "a-b": "a-b" needs double quotes because of '-'`,
		`POSTHASTE_TOPICS (f:31): interval: no such key (interval_seconds is one)`,
		`POSTHASTE_TOPICS (f:32): want match, interval_seconds, batch_size and on_refused of a rule`,
		`POSTHASTE_TOPICS (f:33): batch_size: want a whole number above 0`,
		`POSTHASTE_TOPICS (f:33): match is missing: a topic, or a pattern such as order-service.*`,
		`POSTHASTE_TOPICS (f:34): batch_size is given twice`,
		`POSTHASTE_TOPICS (f:35): match: want text, not a list`,
		`http (f:20): want its settings below it, each on an indented line of its own`,
		`kafak (f:11): no such key; correct it or remove it (kafka is one)`,
		`lease (f:10): no such key; correct it or remove it (relay.lease is one)`,
		`relay (f:27): is given twice, first in line 1; leave one out`,
		`relay.batch_size (f:5): is given twice, first in line 4; leave one out`,
		`relay.leese (f:2): no such key; correct it or remove it (relay.lease is one)`,
		`relay.order (f:13): want order: on an indented line below relay:`,
	}
	slices.Sort(want)
	slices.Sort(got)
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not expected: %s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
}

// A file that is no YAML is told of with its line, without a piece of it, and without what is missing for that reason.
func TestNotYAML(t *testing.T) {
	for text, want := range map[string]string{
		"kafka:\n  password: *sesame\n":          "f:2: not YAML; a value with signs",
		"kafka:\n  password: @sesame\n":          "f:2: not YAML: found character that cannot start",
		"kafka:\n  password: %sesame\n":          "f:2: not YAML: found character that cannot start",
		"kafka:\n  password: sesame: street\n":   "f:2: not YAML: mapping values are not allowed",
		"kafka:\n  password: \"sesame\n":         "f:3: not YAML: found unexpected end of stream",
		"kafka:\n\tpassword: sesame\n":           "f:2: not YAML: a tab stands where only blanks indent",
		"kafka:\n  password: \tx @sesame: a\n":   "f:2: not YAML",
		"kafka:\n  brokers: [::1]:9092\n":        "f:2: not YAML",
		"- sesame\n":                             "f:1: want sections",
		"sesame":                                 "f:1: want sections",
		"log: {level: info}\n---\nlog: sesame\n": "f:2: a second document begins",
		"log: {level: info}\n--- *sesame\n":      "f:2: not YAML",
		"\xff\xfe\x00":                           "not YAML",
		"kafka: \xff":                            "not YAML",
	} {
		_, err := loadFile(t, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "not set")) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A name that leads to something without an end, or to a dump, is an answer and no reason to fill the memory.
func TestFilesAreSmall(t *testing.T) {
	large := write(t, strings.Repeat("# nothing\n", 10_000))
	t.Chdir(t.TempDir())
	for _, path := range []string{large, "/dev/zero"} {
		for _, variable := range []string{ConfigEnv, "POSTHASTE_KAFKA_PASSWORD_FILE"} {
			_, err := Load(Gather(nil, []string{"KAFKA_BROKERS=b1:9092", variable + "=" + path}))
			want := variable + `="` + path + `": can't be read: it has more than 65536 bytes`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %s", err, want)
			}
		}
	}
	if err := os.Symlink("/dev/zero", ".env"); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Gather(nil, []string{"KAFKA_BROKERS=b1:9092"}))
	if err == nil || !strings.Contains(err.Error(), ".env: can't be read") {
		t.Errorf(".env: %v", err)
	}
}

func TestFileIsNamed(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	AddConfigFlag(flags)
	path := write(t, "relay: {lease: 8s}")
	environ := []string{"KAFKA_BROKERS=b1:9092", ConfigEnv + "=/none/such"}
	_, err := Load(Gather(flags, environ))
	want := `read settings: POSTHASTE_CONFIG="/none/such": can't be read: no such file or directory`
	if err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	if err := flags.Set(ConfigFlag, path); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(Gather(flags, environ)); err != nil || c.Relay.Config.Lease != 8*time.Second {
		t.Errorf("the flag does not come first: %v", err)
	}
	if err := flags.Set(ConfigFlag, ""); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(Gather(flags, environ)); err != nil || c.Relay.Config.Lease != 5*time.Second {
		t.Errorf("an empty flag does not name nothing: %v", err)
	}
	if name, source := (Sources{DotEnv: map[string]string{ConfigEnv: "a"}}).configName(); name != "a" ||
		source != ".env" {
		t.Errorf("in .env: %q, %q", name, source)
	}
}
