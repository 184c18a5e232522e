package settings

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The example loads as it is and changes nothing; with its comments taken off it gives every setting.
func TestExampleLoads(t *testing.T) {
	var b strings.Builder
	if err := WriteExample(&b); err != nil {
		t.Fatal(err)
	}
	example := b.String()
	environ := map[string]string{"KAFKA_BROKERS": "b1:9092"}
	got, err := Load(Sources{Environ: environ, File: file(t, example)})
	want, err2 := Load(Sources{Environ: environ})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	got.Database.Conn, want.Database.Conn = nil, nil // holds functions
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the example changes what it should leave:\ngot  %+v\nwant %+v", got, want)
	}

	whole := regexp.MustCompile(`(?m)^( *)#(\S|  )`).ReplaceAllString(example, "$1$2")
	whole = strings.NewReplacer("sasl: none", "sasl: plain", "tls: off", "tls: on").Replace(whole)
	f := file(t, whole)
	all, err := Explain(Sources{File: f})
	if err != nil {
		t.Errorf("with all of it: %v\n%s", err, whole)
	}
	for _, e := range all {
		if e.Origin.Source != FromFile || e.Value == nil {
			t.Errorf("%s is %v from %v", e.Env, e.Value, e.Origin)
		}
	}
	if n := strings.Count(example, "Why:"); n != len(all) {
		t.Errorf("%d settings are explained, want %d", n, len(all))
	}
	for line := range strings.Lines(example) {
		if len(line) > 121 {
			t.Errorf("long line: %s", line)
		}
	}
}

const reference = "../../../../docs/reference-settings.md"

func TestReferenceIsTrue(t *testing.T) {
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	if string(page) != b.String() {
		t.Error("docs/reference-settings.md is out of date: run go generate ./cmd/posthaste")
	}
}

// The examples of the page load, and show what it says.
func TestReferenceExamples(t *testing.T) {
	yamls := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(referenceText, -1)
	if len(yamls) < 4 {
		t.Fatalf("found %d examples", len(yamls))
	}
	for i, match := range yamls {
		text := match[1]
		from := Sources{File: file(t, text), Environ: map[string]string{"POSTHASTE_RELAY_LEASE": "8s"}}
		if strings.Contains(text, "password_file") {
			secret := write(t, "sesame\n")
			from.File = file(t, strings.ReplaceAll(text, "/run/secrets/kafka-password", secret))
		}
		if _, err := Load(from); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if i > 0 {
			continue
		}
		shown := regexp.MustCompile("(?s)```text\n(.*?)```").FindStringSubmatch(referenceText)[1]
		for line := range strings.Lines(shown) {
			name, rest, _ := strings.Cut(line, " ")
			e := explain(t, from, name)
			if e.Origin.Source == FromDefault { // the one that the page gives by a flag
				continue
			}
			_, at, _ := strings.Cut(e.Origin.String(), ".yaml")
			if want := strings.TrimSpace(rest); !strings.HasSuffix(want, e.Text()) || !strings.Contains(want, at) {
				t.Errorf("%s: shown from %s as %s", line, e.Origin, e.Text())
			}
		}
	}
	compact := regexp.MustCompile(`POSTHASTE_TOPICS='(.*)'`).FindStringSubmatch(referenceText)[1]
	if e := explain(t, Sources{File: file(t, yamls[len(yamls)-1][1])}, "POSTHASTE_TOPICS"); e.Text() != compact {
		t.Errorf("the two forms of the page differ: %s", e.Text())
	}
}
