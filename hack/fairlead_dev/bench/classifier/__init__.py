"""The whole table of the background classifier: the product's model on three test sets beside the paper's classifiers.

The paper is OPS, *Optimization through Protocol Selection* [Anvari 2021].
"""
