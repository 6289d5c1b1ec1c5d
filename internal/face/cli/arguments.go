package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// args returns a check of the number of arguments. Its error names the missing argument. what lists the arguments as
// the usage line does: "AGENT DESCRIPTION", "[AGENT]" for an optional argument, and "ID..." for one or more.
func args(what string) cobra.PositionalArgs {
	names := strings.Fields(what)
	least, most := len(names), len(names)
	for _, name := range names {
		if strings.HasPrefix(name, "[") {
			least--
		}
		if strings.HasSuffix(name, "...") {
			most = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("%s is missing: %s", strings.TrimSuffix(names[len(args)], "..."), cmd.UseLine())
		case most >= 0 && len(args) > most:
			return tooMany(args[most], most > 0)
		}
		return nil
	}
}

// tooMany returns the error about the first surplus argument. takes reports whether the command takes any arguments.
func tooMany(arg string, takes bool) error {
	if !takes {
		return usagef("too many arguments, from %q on: the command takes no arguments", arg)
	}
	return usagef("too many arguments, from %q on; put quotes around a text of several words", arg)
}
