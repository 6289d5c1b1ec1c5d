// Command protoc-gen-fleet-mcp is a protoc plugin. In a folder of package NAME, it writes the package NAMEmcp, which has one MCP tool for
// each method of a service that names a toolset, except for methods with the option fleet.v1.no_tool. It derives a tool's name,
// description, JSON Schemas and hints from the method's definition alone.
package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"

	"fleet/cmd/internal/option"
)

func main() {
	protogen.Options{}.Run(generate)
}

// generate writes a file for each proto file that has a service with a toolset.
func generate(p *protogen.Plugin) error {
	p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
	opts := option.NewReader(p.Files)
	for _, f := range p.Files {
		if !f.Generate {
			continue
		}
		g := generator{plugin: p, options: opts, file: f}
		if err := g.writeFile(); err != nil {
			return err
		}
	}
	return nil
}
