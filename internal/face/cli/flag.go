package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fleet/internal/face/wire"
)

// setCompletion sets the completion of a flag's value. It panics if the flag does not exist, which is a bug.
func setCompletion(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("cli: completion of --%s of %q: %v", flag, cmd.Name(), err))
	}
}

// flagError converts cobra's error about a flag. For an unknown flag, the new error suggests the nearest one.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return newUnknownCommandError(cmd, args[0]) // the flag may be right for the intended command
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if invalidErr, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return newInvalidValueError(invalidErr)
	}
	unknownErr, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknownErr.GetSpecifiedShortnames() != "" {
		return usagef("%v", err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	name := unknownErr.GetSpecifiedName()
	if near := wire.Nearest(name, names); near != "" {
		return usagef("unknown flag --%s; did you mean --%s?", name, near)
	}
	return usagef("unknown flag --%s", name)
}

// newInvalidValueError returns an error that says which values the flag takes. The errors of Fleet's own flag types already do.
func newInvalidValueError(e *pflag.InvalidValueError) error {
	f, cause := e.GetFlag(), e.Unwrap()
	_, isNumError := errors.AsType[*strconv.NumError](cause)
	switch kind := f.Value.Type(); {
	case kind == "duration" && strings.HasPrefix(cause.Error(), "time: "):
		return usagef("--%s is %q: give a time with its unit, such as 30s, 45m or 24h", f.Name, e.GetValue())
	case !isNumError:
		return usagef("--%s is %q: %v", f.Name, e.GetValue(), cause)
	case errors.Is(cause, strconv.ErrRange):
		return usagef("--%s is %q, which is too large or too small", f.Name, e.GetValue())
	case kind == "bool":
		return usagef("--%s is %q: give true or false", f.Name, e.GetValue())
	case strings.HasPrefix(kind, "float"):
		return usagef("--%s is %q: give a number", f.Name, e.GetValue())
	}
	return usagef("--%s is %q: give a whole number", f.Name, e.GetValue())
}

// addOptional adds a flag for an optional field of a request. The field stays nil unless the flag is given. So the server can tell a zero
// that was given from a field that was not set.
func addOptional[T any](f *pflag.FlagSet, field **T, name, usage string) {
	f.Var(optionalFlag[T]{field}, name, usage)
}

// optionalFlag is the value of a flag for an optional field.
type optionalFlag[T any] struct{ field **T }

// String returns "", because a field that is not set has no default value in the help.
func (f optionalFlag[T]) String() string { return "" }

func (f optionalFlag[T]) Type() string { return fmt.Sprintf("%T", *new(T)) }

func (f optionalFlag[T]) Set(text string) error {
	v := new(T)
	var err error
	switch v := any(v).(type) {
	case *string:
		*v = text
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	case *int32:
		var n int64
		n, err = strconv.ParseInt(text, 0, 32)
		*v = int32(n)
	}
	if err == nil {
		*f.field = v
	}
	return err
}

// enumFlag is the value of a flag that takes the name of a value of an enum.
type enumFlag[E ~int32] struct {
	field *E
	names map[int32]string
}

// addEnum adds a flag that takes the name of a value of an enum.
func addEnum[E ~int32](cmd *cobra.Command, field *E, names map[int32]string, name, usage string) {
	cmd.Flags().Var(enumFlag[E]{field, names}, name, usage)
}

func (f enumFlag[E]) choices() []string { return enumChoices(f.names) }

// enumChoices returns the names of an enum's values, without the unspecified one.
func enumChoices(names map[int32]string) (list []string) {
	for n := int32(1); names[n] != ""; n++ {
		list = append(list, names[n])
	}
	return list
}

// String returns the name of the value, or "" if no value is set.
func (f enumFlag[E]) String() string {
	if f.field == nil || *f.field == 0 {
		return ""
	}
	return f.names[int32(*f.field)]
}

func (f enumFlag[E]) Type() string { return "VALUE" }

func (f enumFlag[E]) Set(value string) error {
	for n, name := range f.names {
		if n != 0 && name == value {
			*f.field = E(n)
			return nil
		}
	}
	return fmt.Errorf("give %s", orList(f.choices()))
}

// addSeconds adds a flag that takes a duration of at least a second. It passes the duration to set, rounded up to whole seconds.
func addSeconds(cmd *cobra.Command, name, usage string, set func(seconds int32)) {
	cmd.Flags().Func(name, usage, func(text string) error {
		d, err := parseDuration(text)
		if err == nil && d > math.MaxInt32*time.Second {
			return errors.New("give at most 24855d")
		}
		if err != nil || d < time.Second {
			return errors.New("give at least one second, with a unit, such as 30s, 45m, 12h or 90d")
		}
		set(int32(math.Ceil(d.Seconds())))
		return nil
	})
}

// parseDuration parses a duration. Unlike time.ParseDuration, it accepts days: 7d.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// addTime adds a flag for a point in time: a date, an RFC 3339 time, or an age such as 90m, 24h or 7d.
func (p *program) addTime(cmd *cobra.Command, field **timestamppb.Timestamp, name, usage string) {
	cmd.Flags().Func(name, usage, func(text string) (err error) {
		*field, err = parseTime(text, p.deps.Now())
		return err
	})
}

// addLaterTime adds a flag for a point in time that is given as a time, or as the duration until then.
func (p *program) addLaterTime(cmd *cobra.Command, field **timestamppb.Timestamp, name, usage string) {
	cmd.Flags().Func(name, usage, func(text string) (err error) {
		if d, parseErr := parseDuration(text); parseErr == nil && d >= 0 {
			*field = timestamppb.New(p.deps.Now().Add(d))
			return nil
		}
		*field, err = parseTime(text, p.deps.Now())
		return err
	})
}

// parseTime parses the value of a flag that addTime or addLaterTime has added. A date or a time without a zone is in the zone of now.
func parseTime(text string, now time.Time) (*timestamppb.Timestamp, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return timestamppb.New(at), nil
		}
	}
	if d, err := parseDuration(text); err == nil && d >= 0 {
		return timestamppb.New(now.Add(-d)), nil
	}
	return nil, errors.New("give a duration such as 90m, 24h or 7d, or a time such as 2026-11-01 or 2026-11-01T10:30:00Z")
}

// addPages adds the flags of a list with pages. In the help, what names the items, and defaultSize is the number of items on a page by
// default.
func addPages(cmd *cobra.Command, page, size **int32, what, defaultSize string) {
	addOptional(cmd.Flags(), page, "page", "show page `N`, from 1 (default 1)")
	addOptional(cmd.Flags(), size, "page-size", "show `N` "+what+" a page, 1 to 100 (default "+defaultSize+")")
}

// addParameters adds the flag --param, which takes NAME=VALUE and can be repeated.
func addParameters(cmd *cobra.Command, parameters *map[string]string, usage string) {
	cmd.Flags().Var(keyValueFlag{parameters, "--param"}, "param", usage)
}

// keyValueFlag is the value of a flag that takes NAME=VALUE. Each use of the flag adds an entry to the map.
type keyValueFlag struct {
	entries *map[string]string
	name    string // of the flag, for errors
}

// String returns "", because the map has no default entries.
func (f keyValueFlag) String() string { return "" }

func (f keyValueFlag) Type() string { return "NAME=VALUE" }

func (f keyValueFlag) Set(text string) error { return addKeyValue(f.entries, f.name, text) }

// addKeyValue adds the entry NAME=VALUE to the map, which it creates if it is nil. what names the text in errors, for example "--param".
func addKeyValue(entries *map[string]string, what, text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return usagef("%s is %q: write NAME=VALUE", what, text)
	}
	if _, twice := (*entries)[name]; twice {
		return usagef("%s has %s twice: give it once", what, name)
	}
	if *entries == nil {
		*entries = map[string]string{}
	}
	(*entries)[name] = value
	return nil
}
