CDK ?= node_modules/.bin/cdk
CONTEXT := --context environment=$(ENVIRONMENT)

synth: package $(CDK) ## Check what would be deployed, without an account
	$(CDK) synth --quiet $(CONTEXT)

deploy: package $(CDK) ## Deploy with the AWS credentials of your shell, to an account that cdk bootstrap has prepared
	$(CDK) deploy --all $(CONTEXT)
	$(TOWPATH) bindings from-stack --manifest aws.json

node_modules/.bin/cdk: package.json
	npm install --silent --no-audit --no-fund
	@touch $@
