package app

import (
	"context"
	"net"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"fleet/internal/face/cli"
	"fleet/internal/face/mcp"
)

func (p *program) newMCP() *cobra.Command {
	var toolset string
	cmd := &cobra.Command{
		Use:     "mcp",
		GroupID: cli.GroupServer,
		Short:   "Serve MCP on standard input and output, for clients that start their servers",
		Long: `Serve MCP on standard input and output. The tools act on the running server, or,
when none runs at --server, on a fleet in this process; --embedded asks for that.`,
		Example: `  fleet mcp
  fleet mcp --embedded --data ./data
  claude mcp add fleet -- fleet mcp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			t, err := cli.TargetOf(cmd)
			if err != nil {
				return err
			}
			if !t.Embedded && !answers(cmd.Context(), t.Server) && isLocal(t.Server) && t.Token == "" {
				t.Embedded = true
			}
			conn, closeConn, err := p.dial(cmd.Context(), t)
			if err != nil {
				return err
			}
			defer closeWith(&err, closeConn)
			return p.serveStdio(cmd.Context(), conn, toolset)
		},
	}
	cmd.Flags().StringVar(&toolset, "toolset", "fleet", "serve the tools of `TOOLSET`, or of all")
	return cmd
}

func (p *program) serveStdio(ctx context.Context, conn grpc.ClientConnInterface, toolset string) error {
	return mcp.Stdio(ctx, conn, mcp.Config{Version: p.version, Toolset: toolset}, p.stdin, p.stdout)
}

// answers says whether something listens at the address.
func answers(ctx context.Context, addr string) bool {
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && isLoopback(host)
}
