package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (p *program) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    `Print the version of this program, and what it lacks because of how it was built. It needs no server.`,
		Example: `  fleet version`,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if p.output.forPeople() {
				text := p.deps.Version
				if !p.quiet {
					text = fmt.Sprintf("fleet %s (%s, %s)", p.deps.Version, runtime.Version(), platform)
					if p.deps.MissingFeatures != "" {
						text += "\nlacks: " + p.deps.MissingFeatures
					}
				}
				_, err := fmt.Fprintln(p.deps.Stdout, text)
				return err
			}
			body, err := json.Marshal(struct {
				Version  string `json:"version"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
				Lacks    string `json:"lacks"`
			}{p.deps.Version, runtime.Version(), platform, p.deps.MissingFeatures})
			if err != nil {
				return err
			}
			text, err := p.output.document(body)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(p.deps.Stdout, text)
			return err
		},
	}
}
