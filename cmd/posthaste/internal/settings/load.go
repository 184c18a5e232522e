package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/joho/godotenv"
	"github.com/spf13/pflag"

	"posthaste.dev/posthaste/internal/pgname"
	"posthaste.dev/posthaste/postgres"
)

// Sources are where values come from, first wins.
type Sources struct {
	Flags   *pflag.FlagSet    // those that were changed count; may be nil
	Environ map[string]string // the process's environment
	DotEnv  map[string]string // the file .env
}

// ReadDotEnv reads a file of KEY=VALUE lines. A missing one is empty. Its errors never quote the file, which may
// hold secrets.
func ReadDotEnv(path string) (map[string]string, error) {
	values, err := godotenv.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			return nil, fmt.Errorf("read %s: %w", path, pathError.Err)
		}
		return nil, fmt.Errorf("read %s: a line is not KEY=VALUE; values with blanks or # stand in double quotes", path)
	}
	return values, nil
}

// EnvironMap turns os.Environ into what Sources wants.
func EnvironMap(environ []string) map[string]string {
	values := map[string]string{}
	for _, pair := range environ {
		if key, value, ok := strings.Cut(pair, "="); ok {
			values[key] = value
		}
	}
	return values
}

// Problem is one wrong setting.
type Problem struct {
	Name   string // of the variable
	Given  string // "" for a secret or for one that is missing
	Source string // where it was given
	Want   string
}

func (p Problem) Error() string {
	text := p.Name
	if p.Given != "" {
		text += "=" + p.Given
	}
	if p.Source != "" {
		text += " (" + p.Source + ")"
	}
	return text + ": " + p.Want
}

// Error is every wrong setting at once.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Error()
	}
	return "read settings: " + strings.Join(texts, "; ")
}

// Load reads the settings of the groups. The error is always an *Error.
func Load(from Sources, groups ...Group) (*Config, error) {
	c := &Config{}
	l := loader{from: from}
	for _, s := range inGroups(table(c), groups) {
		l.load(s)
	}
	l.refuseUnknown()
	l.finish(c, groups)
	slices.SortStableFunc(l.problems, func(a, b Problem) int { return strings.Compare(a.Name, b.Name) })
	if len(l.problems) > 0 {
		return nil, &Error{l.problems}
	}
	return c, nil
}

func inGroups(all []Setting, groups []Group) []Setting {
	if len(groups) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(s Setting) bool { return !slices.Contains(groups, s.Group) })
}

type loader struct {
	from     Sources
	problems []Problem
}

func (l *loader) refuse(p Problem) { l.problems = append(l.problems, p) }

// load sets the default first, so that after a wrong value the field holds something that the checks of the whole
// don't stumble over.
func (l *loader) load(s Setting) {
	if s.Default != "" {
		if err := s.set(s.Default); err != nil {
			panic(fmt.Sprintf("default of %s: %v", s.Env, err))
		}
	}
	value, source, ok := l.find(s)
	if !ok {
		if s.required {
			l.refuse(Problem{Name: s.Env, Want: "not set; it is needed: " + s.Help})
		}
		return
	}
	if err := s.set(value); err != nil {
		p := Problem{Name: s.Env, Given: fmt.Sprintf("%q", value), Source: source, Want: err.Error()}
		if s.Secret {
			p.Given = ""
		}
		l.refuse(p)
	}
}

// find returns the value of the first source that has the setting. ok is false too when it was refused.
func (l *loader) find(s Setting) (value, source string, ok bool) {
	if s.Flag != "" && l.from.Flags != nil && l.from.Flags.Changed(s.Flag) {
		value, err := l.from.Flags.GetString(s.Flag)
		return value, "--" + s.Flag, err == nil
	}
	for _, place := range []struct {
		name   string
		values map[string]string
	}{{"", l.from.Environ}, {".env", l.from.DotEnv}} {
		value, given := place.values[s.Env]
		given = given && (value != "" || s.empty)
		file := place.values[s.Env+"_FILE"]
		switch {
		case s.Secret && file != "" && given:
			l.refuse(Problem{Name: s.Env, Source: place.name, Want: "is given, and so is " + s.Env + "_FILE; leave one out"})
			return "", "", false
		case s.Secret && file != "":
			return l.readSecret(s.Env+"_FILE", file, place.name)
		case given:
			return value, place.name, true
		}
	}
	return "", "", false
}

// readSecret reads a secret from a file. Editors and secret stores end it with a line break, which is none of it.
func (l *loader) readSecret(name, path, source string) (string, string, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		l.refuse(Problem{Name: name, Given: fmt.Sprintf("%q", path), Source: source, Want: "can't be read: " + err.Error()})
		return "", "", false
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	return value, name, value != ""
}

// injected matches what Kubernetes adds to the environment of every pod for a Service named posthaste or posthaste-...
var injected = regexp.MustCompile(`^POSTHASTE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// refuseUnknown looks at both places for names that begin like ours. A shared .env holds names of others; these pass.
func (l *loader) refuseUnknown() {
	known := map[string]bool{}
	for _, s := range All() {
		known[s.Env] = true
		known[s.Env+"_FILE"] = s.Secret
	}
	for source, values := range map[string]map[string]string{"": l.from.Environ, ".env": l.from.DotEnv} {
		for name := range values {
			ours := strings.HasPrefix(name, "POSTHASTE_") && !strings.HasPrefix(name, "POSTHASTE_TEST_")
			if ours && !known[name] && !injected.MatchString(name) {
				l.refuse(Problem{Name: name, Source: source,
					Want: "no such setting; correct the name or remove it" + similar(name, known)})
			}
		}
	}
}

// similar names the setting that differs by the separators or the last letters only, the usual slips.
func similar(name string, known map[string]bool) string {
	plain := func(s string) string { return strings.ReplaceAll(strings.TrimPrefix(s, "POSTHASTE_"), "_", "") }
	for candidate, is := range known {
		a, b := plain(name), plain(candidate)
		if is && (strings.HasSuffix(a, b) || strings.HasSuffix(b, a) || strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
			return " (" + candidate + " is one)"
		}
	}
	return ""
}

// finish checks what concerns more than one setting, and fills the fields that are derived.
func (l *loader) finish(c *Config, groups []Group) {
	has := func(g Group) bool { return len(groups) == 0 || slices.Contains(groups, g) }
	if has(GroupDatabase) {
		l.finishDatabase(&c.Database)
	}
	if has(GroupRelay) {
		c.Relay.Config = c.Relay.Config.WithDefaults()
		l.join(c.Relay.Config.Validate())
	}
	if has(GroupKafka) {
		l.finishKafka(&c.Kafka)
	}
}

// join takes over the findings of a package that names the variables itself.
func (l *loader) join(err error) {
	if err == nil {
		return
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, e := range list {
		name, want, _ := strings.Cut(e.Error(), ": ")
		l.refuse(Problem{Name: name, Want: want})
	}
}

func (l *loader) finishDatabase(d *Database) {
	conn, err := parseDatabase(d.URL)
	if err != nil {
		l.refuse(Problem{Name: "DATABASE_URL", Want: err.Error()})
	}
	d.Conn = conn
	_, terr := pgname.ParseTable(d.Table)
	_, serr := pgname.ParseSchema(d.Schema)
	if terr != nil {
		l.refuse(Problem{Name: "POSTHASTE_TABLE", Want: terr.Error()})
	}
	if serr != nil {
		l.refuse(Problem{Name: "POSTHASTE_SCHEMA", Want: serr.Error()})
	}
	if d.Names, err = postgres.ParseNames(d.Table, d.Schema); err != nil && terr == nil && serr == nil {
		l.refuse(Problem{Name: "POSTHASTE_TABLE", Want: err.Error()})
	}
}

func (l *loader) finishKafka(k *Kafka) {
	sasl := k.SASL != "none"
	if sasl && k.Username == "" {
		l.refuse(Problem{Name: "POSTHASTE_KAFKA_USERNAME", Want: "not set; POSTHASTE_KAFKA_SASL=" + k.SASL + " needs it"})
	}
	if sasl && k.Password == "" {
		l.refuse(Problem{Name: "POSTHASTE_KAFKA_PASSWORD",
			Want: "not set, nor is POSTHASTE_KAFKA_PASSWORD_FILE; POSTHASTE_KAFKA_SASL=" + k.SASL + " needs one"})
	}
	if !sasl && (k.Username != "" || k.Password != "") {
		l.refuse(Problem{Name: "POSTHASTE_KAFKA_SASL", Given: "none",
			Want: "want a mechanism, since a user or password is given"})
	}
	if k.CAFile != "" && !k.TLS {
		l.refuse(Problem{Name: "POSTHASTE_KAFKA_TLS", Given: "off", Want: "want on, since POSTHASTE_KAFKA_CA_FILE is given"})
	}
}
