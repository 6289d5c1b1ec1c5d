package app

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"fleet/internal/face/cli"
)

// sample is a fleet.yaml that mentions and explains every setting.
//
//go:embed sample.yaml
var sample []byte

func (p *program) newInit() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "init [FILE]",
		GroupID: cli.GroupServer,
		Short:   "Write a fleet.yaml that explains itself",
		Long: `Write a configuration with every setting, its default and an explanation. Fleet also works
without one: it then has the project "shell", and one for each agent program on PATH.`,
		Example: `  fleet init
  fleet init ~/.config/fleet/fleet.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := ConfigFile
			if len(args) > 0 {
				path = args[0]
			}
			flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
			if force {
				flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
			}
			f, err := os.OpenFile(path, flags, 0o600)
			if errors.Is(err, fs.ErrExist) {
				return cli.Fail(cli.ExitError, "edit it, or overwrite it with --force", "%s exists already", path)
			}
			if err != nil {
				return err
			}
			_, err = f.Write(sample)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "Wrote %s. Change what you need in it, then run `fleet serve`.\n", path)
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite the file")
	return cmd
}
