module fairlead.io/hack/cluster/pause

go 1.25
