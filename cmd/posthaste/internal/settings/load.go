package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Load reads the settings of the groups, of all when none is given. The error is always an *Error.
func Load(from Sources, groups ...Group) (*Config, error) {
	c, l := read(from, groups)
	if err := l.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// read fills what it can and keeps what is wrong.
func read(from Sources, groups []Group) (*Config, *loader) {
	c := &Config{}
	l := &loader{from: from, origin: map[string]Origin{}, settings: inGroups(table(c), groups)}
	l.problems = append(l.problems, from.unread...)
	if from.File != nil {
		l.problems = append(l.problems, from.File.problems...)
	}
	for _, s := range l.settings {
		l.load(s)
	}
	l.refuseUnknown()
	l.check(c, groups)
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Source, b.Source))
	})
	return c, l
}

func inGroups(all []Setting, groups []Group) []Setting {
	if len(groups) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(s Setting) bool { return !slices.Contains(groups, s.Group) })
}

type loader struct {
	from     Sources
	settings []Setting
	origin   map[string]Origin // by variable, of those that were given
	problems []Problem
}

func (l *loader) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	return &Error{l.problems}
}

func (l *loader) refuse(p Problem) { l.problems = append(l.problems, p) }

// refuseSetting is for what turns out to be wrong once all is read.
func (l *loader) refuseSetting(env, given, want string) {
	l.refuse(Problem{Name: env, Given: given, Source: l.origin[env].source(), Want: want})
}

// source is how a problem tells of an origin: the variable's name says it all.
func (o Origin) source() string {
	if o.Source == FromEnvironment || o.Source == FromDefault {
		return ""
	}
	return o.String()
}

// given is the value of a setting as a source has it.
type given struct {
	text   string
	list   *yaml.Node // instead of text
	origin Origin
}

// load sets the default first, so that after a wrong value the field holds something that the checks of the whole
// don't stumble over.
func (l *loader) load(s Setting) {
	if s.Default != "" {
		if err := s.value.parse(s.Default); err != nil {
			panic(fmt.Sprintf("default of %s: %v", s.Env, err))
		}
	}
	g, ok := l.find(s)
	switch {
	case !ok && s.required && l.origin[s.Env] == Origin{} && len(l.from.unread) == 0:
		l.refuse(Problem{Name: s.Env, Want: "not set; it is needed: " + s.Help})
		return
	case !ok:
		return
	}
	l.origin[s.Env] = g.origin
	if g.list != nil {
		l.refuseList(s, s.value.list(g.list))
	} else if err := s.value.parse(g.text); err != nil {
		p := Problem{Name: s.Env, Given: quote(g.text), Source: g.origin.source(), Want: err.Error()}
		if s.Secret {
			p.Given = ""
		}
		l.refuse(p)
	}
}

// refuseList tells of each wrong piece of a list of the YAML file, by its own line.
func (l *loader) refuseList(s Setting, err error) {
	for _, e := range split(err) {
		line := l.from.File.values[s.Key].line
		if at, ok := errors.AsType[atLine](e); ok {
			line = at.line
		}
		l.refuse(Problem{Name: s.Env, Source: place(l.from.File.path, line), Want: e.Error()})
	}
}

// find returns the value of the first source that has the setting. What a source has, but can't be used, is refused and
// leaves an origin.
func (l *loader) find(s Setting) (given, bool) {
	if s.Flag != "" && l.from.Flags != nil && l.from.Flags.Changed(s.Flag) {
		text, err := l.from.Flags.GetString(s.Flag)
		return given{text: text, origin: Origin{FromFlag, "--" + s.Flag}}, err == nil
	}
	for _, v := range []struct {
		source string
		values map[string]string
	}{{FromEnvironment, l.from.Environ}, {FromDotEnv, l.from.DotEnv}} {
		text, has := v.values[s.Env]
		has = has && (text != "" || s.empty)
		path := ""
		if s.Secret {
			path = v.values[s.Env+"_FILE"]
		}
		if has || path != "" {
			return l.either(s, given{text: text, origin: Origin{Source: v.source}}, has, s.Env+"_FILE", path)
		}
	}
	if l.from.File != nil {
		return l.inFile(s)
	}
	return given{}, false
}

// inFile looks the setting up in the YAML file.
func (l *loader) inFile(s Setting) (given, bool) {
	e, has := l.from.File.values[s.Key]
	named, hasPath := l.from.File.values[s.Key+"_file"] // of secrets alone
	line := e.line
	if !has {
		line = named.line
	}
	if !has && !hasPath {
		return given{}, false
	}
	g := given{text: e.text, list: e.list, origin: Origin{FromFile, place(l.from.File.path, line)}}
	if e.wrong || named.wrong {
		l.origin[s.Env] = g.origin
		return g, false
	}
	return l.either(s, g, g.list != nil || g.text != "" || has && s.empty, s.Key+"_file", named.text)
}

// either decides between a secret and the file that holds it: they are one setting, so the first source that has one of
// them counts, and one source may not have both.
func (l *loader) either(s Setting, g given, has bool, fileName, path string) (given, bool) {
	switch {
	case has && path != "":
		l.origin[s.Env] = g.origin
		l.refuseSetting(s.Env, "", "is given, and so is "+fileName+"; leave one out")
		return g, false
	case path == "":
		return g, has
	}
	refuse := func(want string) (given, bool) {
		l.origin[s.Env] = g.origin
		l.refuse(Problem{Name: s.Env + "_FILE", Given: quote(path), Source: g.origin.source(), Want: want})
		return g, false
	}
	text, err := readBounded(path)
	if err != nil {
		return refuse(unreadable(err).Error())
	}
	g.text = trimLineEnd(string(text))
	if g.text == "" {
		return refuse("is an empty file")
	}
	g.origin.Where = g.origin.String() + ", file " + path
	return g, true
}

// trimLineEnd takes off the line break with which editors and secret stores end a file; it is no part of the secret.
func trimLineEnd(text string) string { return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r") }
