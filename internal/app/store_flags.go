package app

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fleet/internal/face/cli"
)

// storeFlags adds the flags --data, --store and --config. The returned function loads the configuration with them. Its errors are
// usage errors.
func (p *program) storeFlags(f *pflag.FlagSet) func(cmd *cobra.Command) (Config, error) {
	flags := DefaultConfig()
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	addFlags(all, &flags)
	f.AddFlag(all.Lookup("data"))
	f.AddFlag(all.Lookup("store"))
	file := f.String("config", "", "read settings from `FILE` (FLEET_CONFIG)")
	return func(cmd *cobra.Command) (Config, error) {
		cfg, err := Load(*file, p.environ, cmd.Flags())
		if err == nil {
			cfg, err = cfg.withPaths()
		}
		if err != nil {
			return cfg, cli.Fail(cli.ExitUsage, "see `"+cmd.CommandPath()+" --help`", "%v", err)
		}
		return cfg, nil
	}
}
