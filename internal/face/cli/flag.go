package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fleet/internal/face/wire"
)

// complete sets the completion of a flag's value. It panics if the flag does not exist, which is a bug.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("cli: completion of --%s of %q: %v", flag, cmd.Name(), err))
	}
}

// flagError returns the error about a flag that cobra refused. For an unknown flag it suggests the nearest one.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0]) // the flag may be right for the intended command
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongValue(wrong)
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return usagef("%v", err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	name := missing.GetSpecifiedName()
	if near := wire.Nearest(name, names); near != "" {
		return usagef("unknown flag --%s; did you mean --%s?", name, near)
	}
	return usagef("unknown flag --%s", name)
}

// wrongValue returns an error that says which values the flag takes. The errors of Fleet's own flag types already say
// it.
func wrongValue(e *pflag.InvalidValueError) error {
	f, cause := e.GetFlag(), e.Unwrap()
	_, number := errors.AsType[*strconv.NumError](cause)
	switch kind := f.Value.Type(); {
	case kind == "duration" && strings.HasPrefix(cause.Error(), "time: "):
		return usagef("--%s is %q: give a time with its unit, such as 30s, 45m or 24h", f.Name, e.GetValue())
	case !number:
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
