package settings

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// File is what a YAML file of settings holds.
type File struct {
	path     string
	values   map[string]entry // by key
	problems []Problem
}

// entry is the value of a key.
type entry struct {
	line  int
	text  string
	list  *yaml.Node // instead of text
	wrong bool       // is among the problems
}

// atLine is an error with a place in the file.
type atLine struct {
	line int
	error
}

func place(path string, line int) string { return fmt.Sprintf("%s:%d", path, line) }

// readFile reads a file of settings. What is wrong with single keys goes into its problems; an error means that nothing
// of it could be understood. Neither quotes a value, which may be a secret.
func readFile(path string) (*File, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, unreadable(err)
	}
	root, err := parseYAML(text)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, values: map[string]entry{}}
	switch {
	case root == nil || root.ShortTag() == "!!null": // an empty file, or one of comments
	case root.Kind != yaml.MappingNode:
		return nil, atLine{root.Line, errors.New("want sections such as relay:, with settings below each")}
	default:
		f.walk(root, "", fileKeys())
	}
	return f, nil
}

// maxFile bounds a file of settings. A wrong name can lead to a dump, or to a device without an end.
const maxFile = 1 << 16

// readBounded reads a file, or what stands in for one: a pipe, as in --config <(...), is fine.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has more than %d bytes, and no file of settings has", maxFile)
	}
	return text, err
}

// parseYAML returns the only document of a text, nil for an empty one.
func parseYAML(text []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(strings.NewReader(string(text)))
	if err != nil {
		return nil, notYAML(text, err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) || err == nil && len(first.Content) == 0 {
		return nil, nil
	} else if err != nil {
		return nil, notYAML(text, err)
	}
	if err := loader.Load(&second); err == nil {
		return nil, atLine{max(second.Line, 1), errors.New("a second document begins; want one")}
	} else if !errors.Is(err, io.EOF) {
		return nil, notYAML(text, err)
	}
	return first.Content[0], nil
}

// notYAML says where a text stops being YAML. The library's sentence is left out where it quotes the text.
func notYAML(given []byte, err error) error {
	const way = "; a value with signs such as @ % * [ # stands in quotes"
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return errors.New("not YAML" + way)
	}
	text := "not YAML" + way
	if strings.Contains(load.Message, "cannot start any token") && indentedByTab(given, load.Mark.Line) {
		return atLine{load.Mark.Line, errors.New("not YAML: a tab stands where only blanks indent")}
	}
	if !strings.Contains(load.Message, "anchor") {
		text = "not YAML: " + load.Message + way
	}
	return atLine{max(load.Mark.Line, 1), errors.New(text)}
}

// indentedByTab tells whether a tab stands in the indentation of a line; the first is 1.
func indentedByTab(text []byte, line int) bool {
	lines := strings.Split(string(text), "\n")
	if line < 1 || line > len(lines) {
		return false
	}
	given := lines[line-1]
	return strings.Contains(given[:len(given)-len(strings.TrimLeft(given, " \t"))], "\t")
}

func (f *File) refuse(name string, line int, want string) {
	f.problems = append(f.problems, Problem{Name: name, Source: place(f.path, line), Want: want})
}

// walk takes the values of a section; of the whole file with "".
func (f *File) walk(section *yaml.Node, prefix string, keys keys) {
	seen := map[string]int{}
	for key, value := range pairs(section) {
		name := prefix + key.Value
		setting, known := keys.settings[name]
		switch isSection := prefix == "" && slices.Contains(keys.sections, name); {
		case seen[name] != 0:
			f.refuse(name, key.Line, fmt.Sprintf("is given twice, first in line %d; leave one out", seen[name]))
			continue
		case isSection && value.Kind == yaml.MappingNode:
			f.walk(value, name+".", keys)
		case isSection && value.ShortTag() == "!!null": // all in it is left out
		case isSection:
			f.refuse(name, key.Line, "want its settings below it, each on an indented line of its own")
		case known && strings.Contains(key.Value, "."):
			outer, inner, _ := strings.Cut(name, ".")
			f.refuse(name, key.Line, fmt.Sprintf("want %s: on an indented line below %s:", inner, outer))
		case known:
			f.take(name, key.Line, value, setting)
		default:
			f.refuse(name, key.Line, "no such key; correct it or remove it"+hint(name, keys.near(prefix)))
		}
		seen[name] = key.Line
	}
}

// take keeps the value of a key, or says why it is none.
func (f *File) take(name string, line int, node *yaml.Node, s Setting) {
	e := entry{line: line}
	var err error
	switch {
	case name != s.Key: // password_file for password
		e.text, err = plain(node, value{form: "the name of a file"}, false)
	case node.Kind == yaml.SequenceNode && s.value.list != nil:
		e.list = node
	default:
		e.text, err = plain(node, s.value, s.Secret)
	}
	if err != nil {
		e.wrong = true
		f.refuse(s.Env, line, err.Error())
	}
	f.values[name] = e
}

// keys are those that a file may have: of settings, and of the sections around them.
type keys struct {
	settings map[string]Setting
	sections []string
}

func fileKeys() keys {
	k := keys{settings: map[string]Setting{}}
	for _, s := range All() {
		k.settings[s.Key] = s
		if s.Secret {
			k.settings[s.Key+"_file"] = s
		}
		if section, _, ok := strings.Cut(s.Key, "."); ok && !slices.Contains(k.sections, section) {
			k.sections = append(k.sections, section)
		}
	}
	return k
}

// near returns what may be meant by a key at such a place: within a section no section.
func (k keys) near(prefix string) []string {
	names := slices.Collect(maps.Keys(k.settings))
	if prefix == "" {
		names = append(names, k.sections...)
	}
	return names
}

// pairs yields keys and values of a mapping.
func pairs(mapping *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if !yield(mapping.Content[i], mapping.Content[i+1]) {
				return
			}
		}
	}
}

// plain returns the text of a value that is no list. What YAML takes for something else than the text that stands there
// is refused, but for the types that the setting has: other programs that handle the file may have changed it already.
func plain(node *yaml.Node, v value, secret bool) (string, error) {
	switch node.Kind {
	case yaml.AliasNode:
		return "", errors.New("want a value; aliases (*name) are not followed, and text that begins with * stands in " +
			"quotes")
	case yaml.MappingNode:
		return "", fmt.Errorf("want %s, not a section", v.form)
	case yaml.SequenceNode:
		return "", fmt.Errorf("want %s, not a list", v.form)
	}
	tag := node.ShortTag()
	kind := map[string]string{"!!int": "a number", "!!float": "a number", "!!bool": "true or false",
		"!!timestamp": "a date"}[tag]
	switch {
	case tag == "!!null":
		return "", errors.New("has no value; write one, or remove the line")
	case tag == "!!bool" && slices.Contains(v.tags, tag):
		if strings.EqualFold(node.Value, "true") {
			return "on", nil
		}
		return "off", nil
	case tag == "!!str" || slices.Contains(v.tags, tag):
	case kind != "":
		return "", fmt.Errorf("want %s; YAML takes this for %s: text stands in quotes", v.form, kind)
	default:
		return "", fmt.Errorf("want %s without a tag (!name); text that begins with ! stands in quotes", v.form)
	}
	if secret && node.LineComment != "" && node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
		return "", errors.New("a # after a blank begins a comment, or is it part of the secret? " +
			"put the secret in quotes")
	}
	if secret {
		return trimLineEnd(node.Value), nil
	}
	return node.Value, nil
}
