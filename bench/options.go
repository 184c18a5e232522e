package main

import (
	"errors"
	"flag"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"posthaste.dev/posthaste/internal/testenv"
)

// options are the settings of a run.
type options struct {
	database  string
	brokers   string
	brokers3  string
	subjects  string
	scenarios string
	bars      bool
	rounds    int
	posthaste string
	storage   string
	size      size
	warm      time.Duration

	save, from, write string
	json              bool
}

// size is how much of everything is measured.
type size struct {
	Large     int           `json:"large"`     // events of a backlog
	Small     int           `json:"small"`     // the same for the slow
	Steady    time.Duration `json:"steady"`    // how long a steady load lasts
	Burst     int           `json:"burst"`     // events that come at once
	Lone      int           `json:"lone"`      // events that come alone
	Idle      time.Duration `json:"idle"`      // how long a relay is watched that has nothing to do
	Published int           `json:"published"` // rows in the table meanwhile
	Topics    int           `json:"topics"`
	Writing   time.Duration `json:"writing"` // how long writers write as fast as they can
	Waiting   int           `json:"waiting"` // rows that wait for a missing topic
	Growing   int           `json:"growing"` // events of a load that makes the table grow

	Delays []time.Duration `json:"delays"` // of slow-broker
}

// quick are the settings of --quick, where the command line does not say otherwise.
var quick = map[string]string{
	"rounds": "1", "large": "10000", "small": "10000", "steady": "500ms", "burst": "1000", "lone": "2", "idle": "1s",
	"published": "10000", "topics": "20", "writing": "300ms", "waiting": "10000", "growing": "10000", "warm": "0",
}

func parse(args []string) (options, error) {
	var o options
	var fast bool
	o.size.Delays = []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.database, "database", testenv.Get(testenv.DatabaseURL),
		"`URL` of PostgreSQL, of a role that may create databases")
	flags.StringVar(&o.brokers, "kafka", testenv.Get(testenv.KafkaBrokers),
		"Kafka brokers, `host:port` separated by commas")
	flags.StringVar(&o.brokers3, "kafka3", testenv.Get(testenv.Kafka3Brokers),
		"three Kafka brokers, `host:port` separated by commas, for slow-broker")
	flags.StringVar(&o.subjects, "subjects", "",
		"`names` of the subjects, may hold *; if empty the usual ones of each scenario; ratios refer to the first")
	flags.StringVar(&o.scenarios, "scenarios", "", "`names` of the scenarios, may hold *; all if empty")
	flags.BoolVar(&o.bars, "bars", false, "only the subjects and scenarios that the bars need")
	flags.IntVar(&o.rounds, "rounds", 5, "`number` of times that all is measured, some of it three times at most")
	flags.StringVar(&o.posthaste, "posthaste", "", "posthaste `binary` to measure; built from this tree if empty")
	flags.DurationVar(&o.warm, "warm", 15*time.Second, "how `long` the brokers are warmed up first")

	flags.BoolVar(&fast, "quick", false, "everything small: whether it works, not how fast it is")
	flags.IntVar(&o.size.Large, "large", 1_000_000, "`number` of events of a backlog")
	flags.IntVar(&o.size.Small, "small", 100_000, "`number` of them for a subject below 10,000 events/s")
	flags.DurationVar(&o.size.Steady, "steady", 10*time.Second, "how `long` a steady load lasts")
	flags.IntVar(&o.size.Burst, "burst", 20_000, "`number` of events that come at once")
	flags.IntVar(&o.size.Lone, "lone", 15, "`number` of events that come alone, some two seconds apart")
	flags.DurationVar(&o.size.Idle, "idle", 30*time.Second, "how `long` an idle relay is watched")
	flags.IntVar(&o.size.Published, "published", 10_000_000, "`number` of published rows in the table of an idle relay")
	flags.IntVar(&o.size.Topics, "topics", 500, "`number` of topics of many-topics")
	flags.DurationVar(&o.size.Writing, "writing", 5*time.Second, "how `long` writers write as fast as they can")
	flags.IntVar(&o.size.Waiting, "waiting", 1_000_000,
		"`number` of rows that wait for a missing topic; others in proportion")

	flags.IntVar(&o.size.Growing, "growing", 2_000_000, "`number` of events of a load that makes the table grow")
	flags.StringVar(&o.storage, "storage", "",
		"storage `parameters`, such as fillfactor=70: adds the subject posthaste-storage, whose outbox table has them")

	flags.StringVar(&o.save, "save", "", "`file` that gets the results as JSON after every measurement")
	flags.StringVar(&o.from, "from", "", "`file` of --save to tell of, instead of measuring")
	flags.StringVar(&o.write, "write", "", "Markdown `file` whose marked parts are written anew, with plots beside it")
	flags.BoolVar(&o.json, "json", false, "write the report as JSON, not as tables")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if fast {
		if err := lessen(flags); err != nil {
			return options{}, err
		}
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("read arguments: %q is not understood", flags.Args())
	}
	if o.from != "" {
		return o, nil
	}
	return o, o.check()
}

// lessen makes small what the command line has not set.
func lessen(flags *flag.FlagSet) error {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range quick {
		if given[name] {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (o options) check() error {
	var errs []error
	refuse := func(bad bool, why string) {
		if bad {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(o.database == "", "read --database: no test bed is up: run `go run ./testbed up` or name a server")
	refuse(o.brokers == "", "read --kafka: no test bed is up: run `go run ./testbed up` or name the brokers")
	refuse(o.rounds < 1, "read --rounds: want 1 or more")
	refuse(o.size.Small < 10_000, "read --small: want 10000 or more; fewer are gone with the first chunks")
	refuse(o.size.Large < o.size.Small, "read --large: want at least as many as --small")
	refuse(o.size.Steady < 500*time.Millisecond, "read --steady: want 500ms or more")
	refuse(o.size.Writing < 100*time.Millisecond, "read --writing: want 100ms or more")
	refuse(o.size.Idle < time.Second, "read --idle: want 1s or more")
	for name, n := range map[string]int{"burst": o.size.Burst, "lone": o.size.Lone, "published": o.size.Published,
		"topics": o.size.Topics} {
		refuse(n < 1, "read --"+name+": want 1 or more")
	}
	refuse(o.size.Waiting < 1000, "read --waiting: want 1000 or more")
	refuse(o.size.Growing < 5000, "read --growing: want 5000 or more")
	return errors.Join(errs...)
}

// choose picks by name, in the order of the names, each once.
func choose[T interface{ Name() string }](kind, names string, all []T) ([]T, error) {
	if names == "" {
		return all, nil
	}
	var chosen []T
	var known []string
	for _, one := range all {
		known = append(known, one.Name())
	}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		found := false
		for _, one := range all {
			match, err := path.Match(name, one.Name())
			if err != nil {
				return nil, fmt.Errorf("choose %s: %q: %w", kind, name, err)
			}
			found = found || match
			if match && !slices.ContainsFunc(chosen, func(c T) bool { return c.Name() == one.Name() }) {
				chosen = append(chosen, one)
			}
		}
		if !found {
			return nil, fmt.Errorf("choose %s: there is no %q, only %s", kind, name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
