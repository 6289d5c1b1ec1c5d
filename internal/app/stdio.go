package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/admission"
	"fleet/internal/face/cli"
	"fleet/internal/face/mcp"
	"fleet/internal/face/mcp/tool"
	"fleet/internal/fleet"
	"fleet/internal/loopback"
)

func (p *program) newMCP() *cobra.Command {
	var toolset string
	var tools []string
	var maxResult int
	cmd := &cobra.Command{
		Use:     "mcp",
		GroupID: cli.GroupServer,
		Short:   "Serve MCP on standard input and output, for clients that start their servers",
		Long: `Serve MCP on standard input and output. The tools act on the server at --server. If
no server runs at a loopback address and no token is given, they act on a fleet in this
process, as with --embedded. Only one process can use a data directory: for several clients
at a time, run "fleet serve".`,
		Example: `  fleet mcp
  fleet mcp --embedded --data ./data
  claude mcp add fleet -- fleet mcp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if maxResult < mcp.MinMaxResult {
				return fmt.Errorf("--max-result is %d: it must be at least %d bytes", maxResult, mcp.MinMaxResult)
			}
			if err := mcp.CheckTools(tools); err != nil {
				return fmt.Errorf("--tools: %w", err)
			}
			t, err := cli.TargetOf(cmd)
			if err != nil {
				return err
			}
			if !t.Embedded && !acceptsConnections(cmd.Context(), t.Server) && loopback.IsAddress(t.Server) && t.Token == "" {
				t.Embedded = true
			}
			conn, closeConn, err := p.dial(cmd.Context(), t)
			if err != nil {
				return err
			}
			defer closeWith(&err, closeConn)
			return p.serveStdio(cmd.Context(), conn, mcp.Config{Toolset: toolset, Tools: tools, MaxResult: maxResult})
		},
	}
	cmd.Flags().StringVar(&toolset, "toolset", "fleet", "serve the tools of `TOOLSET`, or of all")
	cmd.Flags().StringSliceVar(&tools, "tools", nil, "serve these `TOOLS` of fleet, such as \"*\" or \"list_tasks,*_question*\", besides those of the contract")
	cmd.Flags().IntVar(&maxResult, "max-result", tool.DefaultMaxResult, "shorten answers to at most `BYTES` of text, and say where to continue")
	return cmd
}

// serveStdio serves MCP on standard input and output until the input ends or ctx is done. Its tools make their calls over
// conn.
func (p *program) serveStdio(ctx context.Context, conn grpc.ClientConnInterface, c mcp.Config) error {
	c.Version, c.Rights = p.version, rightsOver(conn, rightsTimeout)
	ctx = metadata.AppendToOutgoingContext(ctx, admission.ControllerKey, "true")
	return mcp.Stdio(ctx, conn, c, p.stdin, p.stdout)
}

// rightsTimeout limits how long the list of tools waits for the server to report the caller's rights.
const rightsTimeout = 5 * time.Second

// rightsOver returns the function for mcp.Config.Rights of a connection. The function asks the server for the caller's
// rights, and waits at most for the given time. If the server does not answer, every tool is listed, and the server refuses
// calls that the caller may not make.
func rightsOver(conn grpc.ClientConnInterface, timeout time.Duration) func(context.Context) func(string) bool {
	client := fleetv1.NewFleetServiceClient(conn)
	return func(ctx context.Context) func(string) bool {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		f, err := client.ShowFleet(ctx, &fleetv1.ShowFleetRequest{})
		if status.Code(err) == codes.PermissionDenied { // only an agent's token is refused here
			return admission.RightsOf(fleet.Principal{AgentUID: "unknown", Scope: fleet.ScopeRun})
		}
		scope, ok := fleet.ParseScope(f.GetScope().String())
		if err != nil || !ok {
			return func(string) bool { return true }
		}
		return admission.RightsOf(fleet.Principal{Name: f.GetCaller(), Scope: scope, Projects: f.GetProjects()})
	}
}

// acceptsConnections reports whether something accepts a connection at the address within two seconds.
func acceptsConnections(ctx context.Context, addr string) bool {
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
