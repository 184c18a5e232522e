package settings

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/joho/godotenv"
	"github.com/spf13/pflag"
)

// Sources are where values come from, first wins.
type Sources struct {
	Flags   *pflag.FlagSet    // those that were changed count; may be nil
	Environ map[string]string // the process's environment
	DotEnv  map[string]string // the file .env
	Named   string            // the YAML file's name, "" for none
	File    *File             // what is in it; nil: nothing that could be read

	unread []Problem // what kept .env or the YAML file from being read
}

// The kinds of sources.
const (
	FromFlag        = "flag"
	FromEnvironment = "environment"
	FromDotEnv      = ".env"
	FromFile        = "file"
	FromDefault     = "default"
)

// Origin is where a value came from.
type Origin struct {
	Source string // one of From...
	Where  string // the flag, or the file with the line; "" where Source says it all
}

func (o Origin) String() string {
	if o.Where != "" {
		return o.Where
	}
	return o.Source
}

// Gather reads the sources of this process: its flags, its environment, .env in the working directory, and the YAML
// file that one of these names. What can't be read is told by Load, with all else that is wrong.
//
// No YAML file is read that nobody named: what a program does must not hang on a file that happens to lie where it was
// started. The PG* variables of .env become the process's own, since the driver looks for them there.
func Gather(flags *pflag.FlagSet, environ []string) Sources {
	from := Sources{Flags: flags, Environ: environMap(environ)}
	var err error
	if from.DotEnv, err = readDotEnv(".env"); err != nil {
		from.unread = append(from.unread, Problem{Name: ".env", Want: err.Error()})
	}
	exportPG(from.DotEnv)
	name, source := from.configName()
	from.Named = name
	if name == "" {
		return from
	}
	if from.File, err = readFile(name); err != nil {
		p := Problem{Name: ConfigEnv, Given: quote(name), Source: source, Want: err.Error()}
		if at, ok := errors.AsType[atLine](err); ok {
			p = Problem{Name: place(name, at.line), Want: err.Error()}
		}
		from.unread = append(from.unread, p)
	}
	return from
}

// configName returns the name of the YAML file, "" for none, and who gave it.
func (from Sources) configName() (name, source string) {
	if from.Flags != nil && from.Flags.Changed(ConfigFlag) {
		name, _ := from.Flags.GetString(ConfigFlag)
		return name, "--" + ConfigFlag
	}
	if name := from.Environ[ConfigEnv]; name != "" {
		return name, ""
	}
	return from.DotEnv[ConfigEnv], FromDotEnv
}

// readDotEnv reads a file of KEY=VALUE lines. A missing one is empty. Its errors never quote the file, which may hold
// secrets.
func readDotEnv(path string) (map[string]string, error) {
	text, err := readBounded(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, unreadable(err)
	}
	values, err := godotenv.UnmarshalBytes(text)
	if err != nil {
		return nil, errors.New("a line is not KEY=VALUE; values with blanks or # stand in double quotes")
	}
	return values, nil
}

// unreadable says why a file can't be read, without the name, which stands before it.
func unreadable(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return errors.New("can't be read: " + err.Error())
}

// environMap turns os.Environ into what Sources wants.
func environMap(environ []string) map[string]string {
	values := map[string]string{}
	for _, pair := range environ {
		if key, value, ok := strings.Cut(pair, "="); ok {
			values[key] = value
		}
	}
	return values
}

// exportPG puts the PG* variables of a .env file into the process's environment, where the driver looks for them. What
// the environment has already stays.
func exportPG(dotEnv map[string]string) {
	for name, value := range dotEnv {
		if strings.HasPrefix(name, "PG") && os.Getenv(name) == "" {
			_ = os.Setenv(name, value)
		}
	}
}
