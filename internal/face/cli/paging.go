package cli

import "github.com/spf13/cobra"

// paging holds the flags of a paged list.
type paging struct{ page, size int32 }

func (g *paging) addTo(cmd *cobra.Command, what, without string) {
	cmd.Flags().Int32Var(&g.page, "page", 1, "show page `N`, from 1")
	cmd.Flags().Int32Var(&g.size, "page-size", 0, "show `N` "+what+" a page, 1 to 100 (default "+without+")")
	complete(cmd, "page", cobra.NoFileCompletions)
	complete(cmd, "page-size", cobra.NoFileCompletions)
}

// values returns the values of the flags, or nil for a flag that was not given.
func (g *paging) values(cmd *cobra.Command) (page, size *int32) {
	if cmd.Flags().Changed("page") {
		page = &g.page
	}
	if cmd.Flags().Changed("page-size") {
		size = &g.size
	}
	return page, size
}
