package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const environmentHelp = `Flags take precedence over the environment:

  FLEET_SERVER       HOST:PORT or https://HOST:PORT of the server, like --server
  FLEET_TOKEN        the token that identifies you; there is no flag for it, because
                     other users can see command lines
  FLEET_TOKEN_FILE   a file with the token, like --token-file
  FLEET_CA_FILE      a file with the certificate authorities to trust, like --ca-file
  FLEET_CLIENT_CERT  a file with your certificate, like --client-cert
  FLEET_CLIENT_KEY   a file with your certificate's private key, like --client-key
  FLEET_DATA         the data directory of an embedded instance, like --data
  NO_COLOR           use no colours if it is set, like --no-color`

// newFlags returns the help topic "flags", about the flags of all commands.
func newFlags(all *pflag.FlagSet) *cobra.Command {
	return &cobra.Command{Use: "flags", Short: "Flags of all commands", Long: "All commands have these flags:\n\n" + strings.TrimRight(all.FlagUsages(), "\n")}
}

// newEnvironment returns the help topic "environment".
func newEnvironment() *cobra.Command {
	return &cobra.Command{Use: "environment", Short: "Environment variables", Long: environmentHelp}
}
